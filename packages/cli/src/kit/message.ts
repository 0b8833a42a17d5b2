/** Messages of rooms and mailboxes on the command line. */
import type { Context } from "../context.ts";
import { payloadOf } from "../terminal/input.ts";

/** A message as it was given or read from standard input: JSON if it is JSON, otherwise the string itself. */
export async function messageOf(context: Context, given: string): Promise<unknown> {
  const text = await payloadOf(context, given, "the message");
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A message as a table shows it. */
export function textOf(message: unknown): string {
  return typeof message === "string" ? message : JSON.stringify(message);
}
