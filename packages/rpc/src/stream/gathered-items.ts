/**
 * All items of a stream as one array, for callers that cannot read streams. A stream may have no end, and
 * its handler may never wait for anything. So the size of a message limits the array, the deadline limits the
 * call, and other calls can run every few milliseconds.
 */
import { InvalidResultError, MessageTooLargeError } from "../errors.ts";
import type { RunningCall } from "../server/call-context.ts";
import type { ServedMethod } from "../server/served-service.ts";
import { readOutput } from "../service/service.ts";

/** The call of the items, and the maximum size of a response. */
export interface GatheringOptions {
  readonly method: ServedMethod;
  readonly running: RunningCall;
  readonly maxMessageBytes: number;
}

const TURN_MS = 10;

/** The items. Throws MessageTooLargeError, InvalidResultError, or the reason of the call's abort. */
export async function gatherItems(
  items: AsyncIterable<unknown>,
  options: GatheringOptions,
): Promise<unknown[]> {
  const { method, running, maxMessageBytes } = options;
  running.signal; // reading the signal makes the deadline abort the call
  const all: unknown[] = [];
  let bytes = 0;
  let turnEnds = performance.now() + TURN_MS;
  for await (const item of items) {
    if (running.aborted !== undefined) throw running.aborted;
    const value = await readOutput(method.name, method.output, item);
    bytes += sizeOf(value, method) + 1;
    if (bytes > maxMessageBytes) {
      throw new MessageTooLargeError("the result", bytes, maxMessageBytes);
    }
    all.push(value);
    if (performance.now() < turnEnds) continue;
    await new Promise((resolve) => setImmediate(resolve));
    turnEnds = performance.now() + TURN_MS;
  }
  return all;
}

function sizeOf(value: unknown, method: ServedMethod): number {
  try {
    return Buffer.byteLength(JSON.stringify(value) ?? "null");
  } catch (error) {
    throw new InvalidResultError(method.name, "it cannot be written as JSON", { cause: error });
  }
}
