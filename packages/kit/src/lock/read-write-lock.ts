/** A lock that many readers or one writer hold. */
import type { Redis } from "@ropeway/core";
import { type Lockable, ModalLock } from "./lock.ts";
import { type LockOptions, resolveLockOptions } from "./options.ts";

/**
 * Readers share the lock; a writer has it alone. Waiters are served in the order of their arrival, so a
 * writer waits only for the readers in front of it. A `Lock` of the same name, and a program that
 * follows the documented lock, count as writers.
 */
export class ReadWriteLock {
  readonly name: string;
  readonly read: Lockable;
  readonly write: Lockable;

  constructor(redis: Redis, name: string, options?: LockOptions) {
    const resolved = resolveLockOptions(options);
    this.name = name;
    this.read = new ModalLock(redis, name, { mode: "read", options: resolved });
    this.write = new ModalLock(redis, name, { mode: "write", options: resolved });
  }
}
