/** Errors of locks. A lock that is lost is core's LeaseLostError. */
export { NotAcquiredError } from "../errors.ts";
