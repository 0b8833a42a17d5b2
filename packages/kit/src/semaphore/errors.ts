/** Errors of semaphores. A permit that is lost is core's LeaseLostError. */
export { NotAcquiredError } from "../errors.ts";
