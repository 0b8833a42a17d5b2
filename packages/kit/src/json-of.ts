/** A message as JSON. */
import { InvalidArgumentError } from "@ropeway/core";

/** The JSON of a message. Throws InvalidArgumentError if it has none, for example a BigInt or a circle. */
export function jsonOf(message: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(message);
  } catch (error) {
    const refused = new InvalidArgumentError("message", message, "a JSON value");
    refused.cause = error;
    throw refused;
  }
  if (json === undefined) throw new InvalidArgumentError("message", message, "a JSON value");
  return json;
}
