/** The scripts, with their replies turned into what the rest of the package speaks of. */
import { defineScript, type Reply, type Script } from "@ropeway/core";

const file = (name: string) => new URL(`../lua/${name}.lua`, import.meta.url);

/** What push.lua answers. */
export interface Pushed {
  /** When the item's batch fires, unix seconds. */
  readonly ontime: number;
  /** How many items that batch has now. */
  readonly items: number;
  /** The id of the last item that was pushed, or of the first push with the same idempotency key. */
  readonly id: string;
}

export const push: Script<Pushed> = defineScript(file("push"), {
  parse: (reply) => {
    const [ontime, items, id] = reply as readonly [string, number, string];
    return { ontime: Number(ontime), items, id };
  },
});

/** What get.lua answers. */
export type Got =
  | { readonly status: "moved" | "empty" }
  | { readonly status: "locked"; readonly retryMs: number }
  | {
      readonly status: "ok";
      readonly delivery: string;
      readonly attempt: number;
      readonly heads: readonly Buffer[];
      readonly bodies: readonly Buffer[];
      /** How long the key had been due, in ms. */
      readonly lateMs: number;
    };

export const get: Script<Got> = defineScript(file("get"), {
  binary: true,
  parse: (reply) => {
    const status = String((reply as readonly Reply[])[0]);
    if (status === "moved" || status === "empty") return { status };
    if (status === "locked") return { status, retryMs: Number((reply as readonly Reply[])[1]) };
    const [, delivery, attempt, heads, bodies, lateMs] = reply as readonly [
      Buffer,
      Buffer,
      number,
      readonly Buffer[],
      readonly Buffer[],
      number,
    ];
    return { status: "ok", delivery: String(delivery), attempt, heads, bodies, lateMs };
  },
});

const count = (reply: Reply): number => Number(reply);

export const complete: Script<number> = defineScript(file("complete"), { parse: count });
export const release: Script<number> = defineScript(file("release"), { parse: count });
export const settle: Script<number> = defineScript(file("settle"), { parse: count });
export const bury: Script<number> = defineScript(file("bury"), { parse: count });
export const sieve: Script<number> = defineScript(file("sieve"), { parse: count });
export const replay: Script<number> = defineScript(file("replay"), { parse: count });
export const discard: Script<number> = defineScript(file("discard"), { parse: count });

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

/** What due.lua answers. */
export interface Due {
  /** Ms to the next key that is not due yet; -1 if there is none. */
  readonly nextMs: number;
  /** The score under which the keys are reserved, or "". */
  readonly reserved: string;
  readonly keys: readonly DueKey[];
}

// Repeating a reservation only reserves other keys; the first ones come back by themselves.
export const due: Script<Due> = defineScript(file("due"), {
  idempotent: true,
  parse: (reply) => {
    const [nextMs, reserved, ...found] = reply as readonly string[];
    const keys: DueKey[] = [];
    for (let i = 0; i < found.length; i += 2) {
      keys.push({ key: String(found[i]), score: String(found[i + 1]) });
    }
    return { nextMs: Number(nextMs), reserved: String(reserved), keys };
  },
});

/** What start.lua answers. */
export interface Started {
  readonly status: "fresh" | "again" | "busy" | "gone" | "dropped" | "expired";
  readonly detail: string;
}

export const start: Script<Started> = defineScript(file("start"), {
  parse: (reply) => {
    const [status, detail = ""] = reply as readonly [Started["status"], string?];
    return { status, detail };
  },
});

/** What remove.lua answers. */
export interface Removed {
  /** Items that were deleted. */
  readonly deleted: number;
  /** How many of them are being sent at this moment and cannot be called back. */
  readonly sending: number;
}

export const remove: Script<Removed> = defineScript(file("remove"), {
  parse: (reply) => {
    const [deleted, sending] = reply as readonly [number, number];
    return { deleted, sending };
  },
});

/** What peek.lua answers, raw. */
export interface Peeked {
  readonly ontime: number | undefined;
  readonly items: number;
  readonly lockMs: number;
  readonly state: Readonly<Record<string, string>>;
  readonly data: Readonly<Record<string, string>>;
  readonly heads: readonly Buffer[];
  readonly bodies: readonly Buffer[];
  readonly paused: boolean;
}

export const peek: Script<Peeked> = defineScript(file("peek"), {
  binary: true,
  idempotent: true,
  parse: (reply) => {
    const [score, items, lockMs, state, data, heads, bodies, paused] = reply as readonly [
      Buffer,
      number,
      number,
      readonly Buffer[],
      readonly Buffer[],
      readonly Buffer[],
      readonly Buffer[],
      number,
    ];
    const ontime = score.length === 0 ? undefined : Number(score);
    const known = { state: fields(state), data: fields(data), paused: paused === 1 };
    return { ontime, items, lockMs, heads, bodies, ...known };
  },
});

/** A flat field, value, field, value reply as an object that has no inherited names. */
export function fields(flat: readonly (Buffer | string)[]): Record<string, string> {
  const record: Record<string, string> = Object.create(null);
  for (let i = 0; i < flat.length; i += 2) record[String(flat[i])] = String(flat[i + 1]);
  return record;
}
