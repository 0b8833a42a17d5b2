/**
 * Which process a pid was. Pids are reused, so a stored pid identifies a process only
 * together with the time its process started.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

/** One process: no other one, before or after, has the same two. */
export interface ProcessBirth {
  readonly pid: number;
  /** Opaque; letters and digits only. */
  readonly birth: string;
}

/** The process that has the pid now; undefined if there is none, or only a zombie. */
export async function birthOf(pid: number): Promise<ProcessBirth | undefined> {
  const birth = process.platform === "linux" ? await fromProc(pid) : await fromPs(pid);
  return birth === undefined ? undefined : { pid, birth };
}

/** Whether the same process still runs. */
export async function isAlive({ pid, birth }: ProcessBirth): Promise<boolean> {
  return (await birthOf(pid))?.birth === birth;
}

/** Ticks since boot, and which boot; a minimal system has /proc but no ps. */
async function fromProc(pid: number): Promise<string | undefined> {
  try {
    const [line, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, "utf8"),
      readFile("/proc/sys/kernel/random/boot_id", "utf8"),
    ]);
    // "pid (name) state ppid ..."; the name may contain anything, so count from its last bracket.
    const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
    if (fields[0] === "Z" || fields[0] === "X") return undefined;
    return `${boot.slice(0, 8)}t${fields[19]}`;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return undefined;
    throw error;
  }
}

async function fromPs(pid: number): Promise<string | undefined> {
  try {
    const ps = promisify(execFile);
    const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
    const { stdout } = await ps("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { env });
    const [state = "", ...started] = stdout.trim().split(/\s+/);
    return state.startsWith("Z") ? undefined : started.join("").replace(/\W/g, "");
  } catch (error) {
    if ((error as { code?: unknown }).code === 1) return undefined; // ps found nothing
    throw error;
  }
}
