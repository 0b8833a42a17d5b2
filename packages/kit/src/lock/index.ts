/** `@ropeway/kit/lock`: locks with fences, read/write locks, several locks at once. */

export type { ListOptions } from "../store/scan.ts";
export { NotAcquiredError } from "./errors.ts";
export type { HeldLock } from "./held-lock.ts";
export { LockInspector, type LockInspectorOptions, type LockView } from "./inspector.ts";
export { Lock, type Lockable } from "./lock.ts";
export { HeldLocks, MultiLock } from "./multi-lock.ts";
export type { AcquireOptions, LockOptions } from "./options.ts";
export { ReadWriteLock } from "./read-write-lock.ts";
