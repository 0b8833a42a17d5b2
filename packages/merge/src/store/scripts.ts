/** The scripts, with their replies parsed. Only the stores beside this file run them. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

const file = (name: string) => new URL(`../../lua/${name}.lua`, import.meta.url);

/** The reply of push.lua. */
export type PushReply =
  | { readonly status: "mismatch" | "full" | "ran" }
  | {
      readonly status: "ok";
      readonly score: string;
      readonly items: number;
      readonly id: string;
    };

export const push: Script<PushReply> = defineScript(file("push"), {
  parse: (reply) => {
    const [score, items, id] = reply as readonly [string, number?, string?];
    if (id === undefined || items === undefined)
      return { status: score as "mismatch" | "full" | "ran" };
    return { status: "ok", score, items, id };
  },
});

/** The outcome of one of several pushes. `failed` is an error, or "" if nothing of it was stored. */
export type GroupedReply =
  | { readonly score: string; readonly items: number; readonly failed?: undefined }
  | { readonly failed: string };

/** The same script with several pushes. */
export const pushGroup: Script<readonly GroupedReply[]> = defineScript(file("push"), {
  parse: (reply) => {
    const flat = reply as readonly (string | number)[];
    const replies: GroupedReply[] = [];
    for (let i = 0; i < flat.length; i += 2) {
      const score = flat[i] as string;
      const items = flat[i + 1] as number;
      replies.push(items > 0 ? { score, items } : { failed: score });
    }
    return replies;
  },
});

/** The reply of get.lua. */
export type GetReply =
  | { readonly status: "moved" | "empty" }
  | { readonly status: "locked"; readonly retryMs: number }
  | {
      readonly status: "ok";
      readonly delivery: string;
      readonly attempt: number;
      readonly count: number;
      /** Of all items, with a line each. */
      readonly heads: string;
      readonly bodies: readonly Buffer[];
      /** How long the key had been due, in ms. */
      readonly lateMs: number;
      /** How to deliver, as JSON; "" if no push gave options. */
      readonly request: string;
    };

export const get: Script<GetReply> = defineScript(file("get"), {
  binary: true,
  parse: (reply) => {
    const status = String((reply as readonly Reply[])[0]);
    if (status === "moved" || status === "empty") return { status };
    if (status === "locked") return { status, retryMs: Number((reply as readonly Reply[])[1]) };
    const [, delivery, attempt, count, heads, bodies, lateMs, request] = reply as readonly [
      Buffer,
      Buffer,
      number,
      number,
      Buffer,
      readonly Buffer[],
      number,
      Buffer,
    ];
    return {
      ...{ status: "ok", attempt, count, bodies, lateMs },
      heads: heads.toString("latin1"),
      delivery: String(delivery),
      request: String(request),
    };
  },
});

const count = (reply: Reply): number => Number(reply);

export const complete: Script<number> = defineScript(file("complete"), { parse: count });
export const release: Script<number> = defineScript(file("release"), { parse: count });
export const settle: Script<number> = defineScript(file("settle"), { parse: count });
export const bury: Script<number> = defineScript(file("bury"), { parse: count });
export const reject: Script<number> = defineScript(file("reject"), { parse: count });
export const discard: Script<number> = defineScript(file("discard"), { parse: count });

const pair = (reply: Reply): readonly [number, number] => reply as readonly [number, number];

export const replay: Script<readonly [number, number]> = defineScript(file("replay"), {
  parse: pair,
});
export const remove: Script<readonly [number, number]> = defineScript(file("remove"), {
  parse: pair,
});

export const pause: Script<number> = defineScript(file("pause"), {
  parse: count,
  idempotent: true,
});
export const sendNow: Script<number> = defineScript(file("send-now"), {
  parse: count,
  idempotent: true,
});

/** A due key and the score it was due at. */
export interface DueKey {
  readonly key: string;
  readonly score: string;
}

/** The reply of due.lua. */
export interface DueReply {
  /** Ms until the next key that is not due yet; -1 if there is none. */
  readonly nextMs: number;
  /** The score under which the keys are reserved, or "". */
  readonly reserved: string;
  /** A key that holds a foreign value; "" if there is none. */
  readonly wrong: string;
  readonly keys: readonly DueKey[];
}

// A repeated reservation only reserves other keys. The first ones come due again by themselves.
export const due: Script<DueReply> = defineScript(file("due"), {
  idempotent: true,
  parse: (reply) => {
    const [nextMs, reserved, wrong, ...found] = reply as readonly string[];
    const keys: DueKey[] = [];
    for (let i = 0; i < found.length; i += 2) {
      keys.push({ key: String(found[i]), score: String(found[i + 1]) });
    }
    return { nextMs: Number(nextMs), reserved: String(reserved), wrong: String(wrong), keys };
  },
});

/** The reply of start.lua. */
export interface StartReply {
  readonly status: "fresh" | "again" | "busy" | "gone" | "dropped" | "expired";
  readonly detail: string;
}

export const start: Script<StartReply> = defineScript(file("start"), {
  parse: (reply) => {
    const [status, detail = ""] = reply as readonly [StartReply["status"], string?];
    return { status, detail };
  },
});

/** The reply of peek.lua. */
export interface PeekReply {
  /** The timer's score; undefined for a key that is not in the timer. */
  readonly score: number | undefined;
  readonly items: number;
  readonly lockMs: number;
  readonly state: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, string>>;
  readonly heads: readonly string[];
  readonly bodies: readonly Buffer[];
  readonly sizes: readonly number[];
  readonly paused: boolean;
}

export const peek: Script<PeekReply> = defineScript(file("peek"), {
  binary: true,
  idempotent: true,
  parse: (reply) => {
    const [score, items, lockMs, state, data, heads, bodies, sizes, paused] = reply as readonly [
      Buffer,
      number,
      number,
      readonly Buffer[],
      readonly Buffer[],
      readonly Buffer[],
      readonly Buffer[],
      readonly number[],
      number,
    ];
    return {
      ...{ items, lockMs, bodies, sizes, paused: paused === 1 },
      heads: heads.map((head) => head.toString("latin1")),
      score: score.length === 0 ? undefined : Number(score),
      state: fields(state),
      data: fields(data),
    };
  },
});

/** Makes an object without inherited names from a flat field, value, field, value reply. */
export function fields(flat: readonly (Buffer | string)[]): Record<string, string> {
  const record: Record<string, string> = Object.create(null);
  for (let i = 0; i < flat.length; i += 2) record[String(flat[i])] = String(flat[i + 1]);
  return record;
}

/** A stored number; 0 if it is missing, or if another program wrote something else. */
export function numberOf(text: string | undefined): number {
  const number = Number(text ?? 0);
  return Number.isFinite(number) ? number : 0;
}

/** A stored whole number of at least 0; 0 if another program wrote something else. */
export function countOf(text: string | undefined): number {
  return Math.max(0, Math.trunc(numberOf(text)));
}
