/** What our own packages share and nobody else should rely on. */
export { lockKeys } from "./lock/keys.ts";
