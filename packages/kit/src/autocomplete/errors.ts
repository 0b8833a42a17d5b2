/** Errors of autocomplete: all of them are core's. */
export { InvalidArgumentError, InvalidNameError, OutOfMemoryError } from "@ropeway/core";
