// Lets one process at a time add programs to a folder, so that ten test runs do not download
// the same program ten times. It only saves work: a bundle is placed in the folder
// by one rename, so two processes that both believe they hold the lock do the work twice but no harm.
// So a plain folder is sufficient as a lock:
//
//   <folder>/.lock/owner    "<host> <pid> <random>"; the time of the folder is renewed every second
//
// The lock is taken over if its holder is gone (same host, no such process) or silent for 30 s by the
// waiter's own clock. Times of different machines are never compared.
import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { makeFolder } from "./folder.ts";
import type { ResolvedProvideOptions } from "./options.ts";

const RENEW_MS = 1_000;
const LOOK_MS = 100;
const SILENT_MS = 30_000;

/** Runs `work` while holding the folder's lock. Creates the folder if needed. */
export async function withLock<T>(
  resolved: ResolvedProvideOptions,
  work: () => Promise<T>,
): Promise<T> {
  await makeFolder(resolved.folder);
  const lock = join(resolved.folder, ".lock");
  const owner = `${hostname()} ${process.pid} ${randomUUID()}`;
  await acquire(lock, owner, resolved);
  const renewal = setInterval(() => {
    // A lock that was taken over cannot be renewed; the work continues, see above.
    utimes(lock, new Date(), new Date()).catch(() => {});
  }, RENEW_MS);
  try {
    return await work();
  } finally {
    clearInterval(renewal);
    if ((await ownerOf(lock)) === owner) await remove(lock);
  }
}

async function acquire(
  lock: string,
  owner: string,
  resolved: ResolvedProvideOptions,
): Promise<void> {
  let seen = "";
  let silentSince = performance.now();
  let told = false;
  while (!(await create(lock, owner))) {
    resolved.signal.throwIfAborted();
    const [holder, time] = await Promise.all([ownerOf(lock), timeOf(lock)]);
    if (`${holder} ${time}` !== seen) {
      seen = `${holder} ${time}`;
      silentSince = performance.now();
    }
    if (isGone(holder) || performance.now() - silentSince > SILENT_MS) {
      await remove(lock);
      continue;
    }
    if (!told) resolved.note(`Waiting for another process that is filling ${resolved.folder}`);
    told = true;
    await delay(LOOK_MS, undefined, { signal: resolved.signal });
  }
}

async function create(lock: string, owner: string): Promise<boolean> {
  try {
    await mkdir(lock);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
  await writeFile(join(lock, "owner"), owner);
  return true;
}

/** Whether the holder ran on this machine and has ended. A lock without a holder may be about to get one. */
function isGone(holder: string | undefined): boolean {
  const [host, pid] = holder?.split(" ") ?? [];
  if (host !== hostname() || pid === undefined) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Renamed first, because a folder that is being deleted must not be mistaken for a lock. */
async function remove(lock: string): Promise<void> {
  const aside = `${lock}-${randomUUID()}`;
  try {
    await rename(lock, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  await rm(aside, { recursive: true, force: true });
}

async function ownerOf(lock: string): Promise<string | undefined> {
  return readFile(join(lock, "owner"), "utf8").catch(() => undefined);
}

async function timeOf(lock: string): Promise<number | undefined> {
  return stat(lock).then(
    ({ mtimeMs }) => mtimeMs,
    () => undefined,
  );
}
