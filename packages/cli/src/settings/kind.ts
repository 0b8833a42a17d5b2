/**
 * The kinds of values a setting can have. A settings file holds typed values, the environment and
 * flags hold texts: a kind turns the string into the value and then checks both in the same way.
 */
import { resolve } from "node:path";
import { InvalidOptionError, parseEndpoint } from "@ropeway/core";
import { flag, integer, oneOf, type Rule, text, withoutPassword } from "@ropeway/core/internal";
import { parseDuration } from "../duration.ts";

/** One kind of value. */
export interface Kind<T> {
  /** The placeholder for the value in help texts. */
  readonly placeholder: string;
  /** Finishes the sentence "must be ..." in the reference. */
  readonly allowed: string;
  /** All values, if there are only a few. */
  readonly words?: readonly string[];
  /** What a text of the environment or a flag means; anything but T is refused afterwards. */
  parse(text: string): unknown;
  /** What is allowed instead, if the value is refused. */
  fault(value: unknown): string | undefined;
  /** The value as used: a path becomes absolute, relative to the folder of its source. */
  settle?(value: T, folder: string): T;
  /** Whether the value contains a secret: then only the environment may hold it. */
  holdsSecret(value: T): boolean;
  /** The value as it may be printed. */
  show(value: T): string;
}

function plain<T>(
  placeholder: string,
  rule: Rule<T>,
  parse: (text: string) => unknown = (text) => text,
): Kind<T> {
  return {
    placeholder,
    allowed: rule.allowed,
    parse,
    fault: (value) => (rule.accepts(value) ? undefined : rule.allowed),
    holdsSecret: () => false,
    show: (value) => JSON.stringify(value),
  };
}

/** Any string except "". */
export const textKind: Kind<string> = plain("text", text);

/** One of a few words. */
export function wordKind<const W extends string>(...words: readonly W[]): Kind<W> {
  return { ...plain("word", oneOf(...words)), words };
}

/** A TCP port; 0 where any free one will do. */
export function portKind(lowest: 0 | 1): Kind<number> {
  return plain("port", integer(lowest, 65_535), (text) =>
    /^\d{1,5}$/.test(text) ? Number(text) : text,
  );
}

/** How many of something. */
export function countKind(lowest: number, highest: number): Kind<number> {
  return plain("number", integer(lowest, highest), (text) =>
    /^\d+$/.test(text) ? Number(text) : text,
  );
}

/** A duration in milliseconds, also as a text with a unit: 5s, 2m. */
export function durationKind(lowestMs: number, highestMs: number): Kind<number> {
  const range = integer(lowestMs, highestMs);
  const allowed = `${range.allowed} in milliseconds, or a duration such as 5s, 2m or 1h`;
  const msOf = (value: unknown) => (typeof value === "string" ? parseDuration(value) : value);
  return {
    placeholder: "duration",
    allowed,
    parse: (text) => text,
    fault: (value) => (range.accepts(msOf(value)) ? undefined : allowed),
    settle: (value) => msOf(value) as number,
    holdsSecret: () => false,
    show: (value) => JSON.stringify(value),
  };
}

/** Yes or no. */
export const flagKind: Kind<boolean> = {
  ...plain("boolean", flag, (text) => (text === "true" ? true : text === "false" ? false : text)),
  words: ["true", "false"],
};

/** A file or folder. */
export const pathKind: Kind<string> = {
  ...plain("path", text),
  allowed: "a path",
  settle: (value, folder) => resolve(folder, value),
};

/** Texts, separated by commas where they are one text. */
export const listKind: Kind<readonly string[]> = plain(
  "list",
  {
    allowed: "a list of strings",
    accepts: (value): value is readonly string[] =>
      Array.isArray(value) && value.every((entry) => text.accepts(entry)),
  },
  (line) =>
    line
      .split(",")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ""),
);

/** A password or another secret; never printed. */
export const secretKind: Kind<string> = {
  ...plain("secret", text),
  holdsSecret: () => true,
  show: () => '"***"',
};

/** Where the cluster's state is; a password in it is a secret, the rest is not. */
export const storeUrlKind: Kind<string> = {
  placeholder: "url",
  allowed: "redis, etcd://host:port[,host:port] or etcds://[user:password@]host:port",
  parse: (url) => url,
  fault: (value) =>
    value === "redis" || (typeof value === "string" && /^etcds?:\/\/[^/?#\s]+\/?$/i.test(value))
      ? undefined
      : storeUrlKind.allowed,
  holdsSecret: (url) => /^etcds?:\/\/[^/]*:[^/]*@/i.test(url),
  show: (url) => JSON.stringify(withoutPassword(String(url))),
};

/** Where a Redis is; its password is a secret, the rest is not. */
export const redisUrlKind: Kind<string> = {
  placeholder: "url",
  allowed: "a URL such as redis://127.0.0.1:6379/0",
  parse: (url) => url,
  fault: (value) => {
    if (typeof value !== "string") return redisUrlKind.allowed;
    try {
      parseEndpoint(value);
      return undefined;
    } catch (error) {
      if (error instanceof InvalidOptionError) return String(error.details.allowed);
      throw error;
    }
  },
  holdsSecret: (url) => {
    const { password, sentinelPassword } = parseEndpoint(url);
    return password !== undefined || sentinelPassword !== undefined;
  },
  show: (url) => JSON.stringify(withoutPassword(String(url))),
};

/** An HTTP address to send to. Its path or query is often a token, so only its origin is printed. */
export const webhookKind: Kind<string> = {
  placeholder: "url",
  allowed: "an http:// or https:// URL without user and password",
  parse: (url) => url,
  fault: (value) => {
    const url = typeof value === "string" && URL.canParse(value) ? new URL(value) : undefined;
    const usable = /^https?:$/.test(url?.protocol ?? "") && !url?.username && !url?.password;
    return usable ? undefined : webhookKind.allowed;
  },
  holdsSecret: () => false,
  show: (value) => {
    if (!URL.canParse(String(value))) return '"***"';
    const { protocol, host, pathname, search } = new URL(value);
    return JSON.stringify(`${protocol}//${host}${pathname + search === "/" ? "" : "/***"}`);
  },
};
