/**
 * The folder that `ropeway up` keeps everything in:
 *
 *   .gitignore          "*": whatever is in here belongs to no repository
 *   up/TOKEN.json       who has the home now (home-claim.ts)
 *   redis/              redis.conf, the append-only files, server.json (redis-child.ts)
 *   logs/               redis.log, portal.log
 *   programs/           servers that were provided
 */
import { rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "@ropeway/provide/internal";
import { isDiskFull } from "../disk-full.ts";
import { DiskFullError, HomeError } from "../errors.ts";
import { LOG_LIMIT_BYTES } from "../rotating-file.ts";

export interface Home {
  readonly path: string;
  readonly claims: string;
  readonly redis: string;
  readonly logs: string;
  readonly programs: string;
}

/** Where things are in a home, whether it exists or not. */
export function homeAt(path: string): Home {
  return {
    path,
    claims: join(path, "up"),
    redis: join(path, "redis"),
    logs: join(path, "logs"),
    programs: join(path, "programs"),
  };
}

/** Creates what is missing; only the owner may look inside. */
export async function openHome(path: string): Promise<Home> {
  const home = homeAt(path);
  try {
    for (const folder of [home.path, home.claims, home.redis, home.logs]) {
      await makeFolder(folder, 0o700);
    }
    await writeFile(join(path, ".gitignore"), "*\n");
  } catch (error) {
    if (isDiskFull(error)) throw new DiskFullError(path, error);
    throw new HomeError(path, error as NodeJS.ErrnoException);
  }
  return home;
}

/** A log file's path; one that has grown large makes room for a new one first. */
export async function openLog(home: Home, name: string): Promise<string> {
  const path = join(home.logs, name);
  const size = await stat(path).then(
    (file) => file.size,
    () => 0,
  );
  if (size > LOG_LIMIT_BYTES) await rename(path, `${path}.1`);
  return path;
}
