/** The limits of a message, checked before it is sent. */
import { reasonOf, show } from "@ropeway/core/internal";
import { InvalidParamsError, MessageTooLargeError, toWire, type WireError } from "../errors.ts";

/** The params of a call as JSON. Throws InvalidParamsError. */
export function paramsJson(method: string, params: unknown): string {
  let json: string | undefined;
  if (typeof params === "object" && params !== null) {
    try {
      json = JSON.stringify(params);
    } catch (error) {
      throw new InvalidParamsError(method, `they cannot be written as JSON: ${reasonOf(error)}`);
    }
  }
  // A toJSON() may convert an object to any value.
  const first = json?.[0];
  if (json !== undefined && (first === "[" || first === "{")) return json;
  throw new InvalidParamsError(method, `${show(params)} is neither an array nor an object`);
}

/** Throws MessageTooLargeError if a text has more bytes than allowed. It is cheap for short texts. */
export function checkSize(text: string, allowed: number, what: string): string {
  if (text.length * 3 <= allowed) return text;
  const bytes = Buffer.byteLength(text);
  if (bytes > allowed) throw new MessageTooLargeError(what, bytes, allowed);
  return text;
}

/** An error that fits into a message: one that has more bytes than allowed becomes MESSAGE_TOO_LARGE. */
export function boundError(error: WireError, allowed: number): WireError {
  const bytes = Buffer.byteLength(JSON.stringify(error));
  return bytes > allowed ? toWire(new MessageTooLargeError("the error", bytes, allowed)) : error;
}
