/** The same lock in three libraries. */
import { connect } from "@ropeway/core";
import { Lock } from "@ropeway/kit/lock";
import { Redis as IoRedis } from "ioredis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import type { Role } from "../../bench.ts";
import type { Stage } from "../../stage.ts";

const TTL_MS = 60_000;

/** One connection to a lock, as in one process. */
export interface Locker {
  /** Waits for the lock without a limit. The returned function releases it and returns whether it was held. */
  acquire(): Promise<() => Promise<boolean>>;
  close(): Promise<unknown>;
}

export const OURS = "ropeway";
export const REDLOCK = "redlock";
export const SEMAPHORE = "redis-semaphore";

async function ours(stage: Stage): Promise<Locker> {
  const redis = await connect(stage.url);
  const lock = new Lock(redis, "bench", { prefix: stage.prefix, ttlMs: TTL_MS, waitMs: null });
  return {
    acquire: async () => {
      const held = await lock.acquire();
      return () => held.release();
    },
    close: () => redis.close(),
  };
}

async function redlock(stage: Stage): Promise<Locker> {
  const client = new IoRedis(stage.url);
  const lock = new Redlock([client], { retryCount: -1 });
  return {
    acquire: async () => {
      const held = await lock.acquire([`${stage.prefix}bench`], TTL_MS);
      return async () => {
        await held.release();
        return true;
      };
    },
    close: () => client.quit(),
  };
}

async function redisSemaphore(stage: Stage): Promise<Locker> {
  const client = new IoRedis(stage.url);
  const options = { lockTimeout: TTL_MS, acquireTimeout: 600_000 };
  return {
    acquire: async () => {
      const mutex = new Mutex(client, `${stage.prefix}bench`, options);
      await mutex.acquire();
      return async () => {
        await mutex.release();
        return true;
      };
    },
    close: () => client.quit(),
  };
}

/** A library, with its role in the bench. */
export interface Library {
  readonly name: string;
  readonly role: Role;
  open(stage: Stage): Promise<Locker>;
}

/** The compared libraries. */
export const libraries: readonly Library[] = [
  { name: OURS, role: "ours", open: ours },
  { name: REDLOCK, role: "peer", open: redlock },
  { name: SEMAPHORE, role: "peer", open: redisSemaphore },
];
