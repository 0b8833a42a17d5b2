/** Exports for our own packages only. They can change in any release. */
export { lockKeys } from "./lock/keys.ts";
