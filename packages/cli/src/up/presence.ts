/**
 * Whether a process lives that shares only a folder with us: it may be in another container, where its
 * pid means nothing to us, or on another host. Two signs of life, one exact and one by observation:
 *
 *   same kernel    the process listens on a Unix socket in the folder. The kernel closes it with the
 *                  process, however that ends; a process that is stopped or paused still listens.
 *   else           the process touches its file every second. Another process watches the file for a
 *                  while and compares what it sees with what it saw; clocks are not compared.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readFile, rm, utimes } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { sleep } from "@ropeway/core/internal";

/** Longer paths do not fit into a socket's address. */
const LONGEST_PATH = 100;
const LOOK_MS = 500;

/** Names the running kernel: processes with the same name can reach each other's sockets. */
export async function kernelId(): Promise<string> {
  if (process.platform !== "linux") return hostname();
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

/** A Unix socket that is there as long as this process. */
export class PresenceSocket {
  readonly #server: Server;
  readonly #path: string;

  private constructor(server: Server, path: string) {
    this.#server = server;
    this.#path = path;
  }

  /** Listens at the path; undefined where the file system has no sockets. */
  static async open(path: string): Promise<PresenceSocket | undefined> {
    const server = createServer((socket) => socket.destroy()).unref();
    server.on("error", () => {});
    try {
      await rm(path, { force: true });
      await atShortPath(path, (short) => {
        return new Promise<void>((resolve, reject) => {
          server.once("error", reject);
          server.listen(short, resolve);
        });
      });
      return new PresenceSocket(server, path);
    } catch {
      server.close();
      return undefined;
    }
  }

  async close(): Promise<void> {
    this.#server.close();
    await rm(this.#path, { force: true });
  }
}

/** Whether a process of this kernel listens at the path. */
export async function isListening(path: string): Promise<boolean> {
  try {
    return await atShortPath(path, (short) => {
      return new Promise<boolean>((resolve) => {
        const socket = connect(short);
        const end = (is: boolean) => {
          socket.destroy();
          resolve(is);
        };
        socket.once("connect", () => end(true));
        // EAGAIN: its queue of connections is full, so a process is listening.
        socket.once("error", (error: NodeJS.ErrnoException) => end(error.code === "EAGAIN"));
      });
    });
  } catch {
    return false;
  }
}

/** Touches the file; false if it is gone. */
export async function touch(path: string, now: Date): Promise<boolean> {
  try {
    await utimes(path, now, now);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Whether the file is touched or removed while we watch: "touched", "removed" or "still". */
export async function watchFile(
  path: string,
  forMs: number,
): Promise<"touched" | "removed" | "still"> {
  const first = await timeOf(path);
  const until = performance.now() + forMs;
  while (first !== undefined && performance.now() < until) {
    await sleep(LOOK_MS);
    const now = await timeOf(path);
    if (now === undefined) return "removed";
    if (now !== first) return "touched";
  }
  return first === undefined ? "removed" : "still";
}

/** Opened instead of only stat(), so that a network file system asks its server. */
async function timeOf(path: string): Promise<number | undefined> {
  try {
    await using file = await open(path);
    return (await file.stat()).mtimeMs;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Does the work with a path to the same place that fits into a socket's address. */
async function atShortPath<T>(path: string, work: (short: string) => Promise<T>): Promise<T> {
  if (process.platform !== "linux" || Buffer.byteLength(path) <= LONGEST_PATH) return work(path);
  let folder: FileHandle | undefined;
  try {
    folder = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
    return await work(join(`/proc/self/fd/${folder.fd}`, basename(path)));
  } finally {
    await folder?.close();
  }
}
