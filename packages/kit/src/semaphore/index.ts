/** `@ropeway/kit/semaphore`: a counting semaphore, fair, with leases. */
export { NotAcquiredError } from "./errors.ts";
export { SemaphoreInspector, type SemaphoreInspectorOptions } from "./inspector.ts";
export type { PermitOptions, SemaphoreOptions } from "./options.ts";
export type { Permit } from "./permit.ts";
export { Semaphore } from "./semaphore.ts";
export type { SemaphoreUse, SemaphoreView } from "./store.ts";
