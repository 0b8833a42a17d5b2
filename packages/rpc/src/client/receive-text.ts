/** Passes a response from a documented key to its receiver. */
import { ParseError } from "../errors.ts";
import type { Receiver } from "./pending-call.ts";

/** Parses the text and delivers it. A text that is not a JSON object fails the call. */
export function receiveText(receiver: Receiver, text: string): void {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch (error) {
    receiver.fail(new ParseError(text, error));
    return;
  }
  if (typeof message === "object" && message !== null && !Array.isArray(message)) {
    receiver.receive(message as Record<string, unknown>, performance.now());
  } else {
    receiver.fail(new ParseError(text));
  }
}
