/**
 * How a push wants its batch delivered, as headers:
 *
 *   Ropeway-Attempts: 5                 Ropeway-Callback: https://...
 *   Ropeway-Timeout-Ms: 3000            Ropeway-Failure-Callback: https://...
 *   Ropeway-Forward-NAME: value         sent along as NAME: value
 *
 * An item that is delivered alone keeps its Content-Encoding.
 */
import { InvalidArgumentError } from "@ropeway/core";
import type { DeliveryRequest, Destination } from "@ropeway/merge";
import { isSingle } from "@ropeway/merge/internal";

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

const PREFIX = "ropeway-";
const FORWARD = "ropeway-forward-";
const KNOWN = [
  ...["ropeway-attempts", "ropeway-timeout-ms"],
  ...["ropeway-callback", "ropeway-failure-callback"],
];
const ALLOWED = `one of ${KNOWN.join(", ")}, or ${FORWARD}NAME`;

/** The options that the headers give; undefined if they give none. */
export function requestOf(to: Destination, headers: Headers): DeliveryRequest | undefined {
  const encoding = optional(headers["content-encoding"])?.toLowerCase();
  const names = Object.keys(headers).filter((name) => name.startsWith(PREFIX));
  if (names.length === 0 && encoding === undefined) return undefined;
  const forwarded: Record<string, string> = {};
  if (encoding !== undefined && encoding !== "identity") {
    if (!isSingle(to.mergeKey)) {
      throw new InvalidArgumentError("content-encoding", encoding, "absent for a merged item");
    }
    forwarded["content-encoding"] = encoding;
  }
  for (const name of names) {
    if (name.startsWith(FORWARD)) forwarded[name.slice(FORWARD.length)] = text(headers[name]);
    // A misspelt option must not look like success.
    else if (!KNOWN.includes(name)) throw new InvalidArgumentError(name, headers[name], ALLOWED);
  }
  return {
    attempts: number(headers, "ropeway-attempts"),
    timeoutMs: number(headers, "ropeway-timeout-ms"),
    callback: optional(headers["ropeway-callback"]),
    failureCallback: optional(headers["ropeway-failure-callback"]),
    ...(Object.keys(forwarded).length > 0 && { headers: forwarded }),
  };
}

function number(headers: Headers, name: string): number | undefined {
  const value = headers[name];
  if (value === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text(value))) {
    throw new InvalidArgumentError(name, value, "a whole number of at least 1");
  }
  return Number(value);
}

function optional(value: string | readonly string[] | undefined): string | undefined {
  return value === undefined ? undefined : text(value);
}

function text(value: string | readonly string[] | undefined): string {
  return typeof value === "string" ? value : (value ?? []).join(", ");
}
