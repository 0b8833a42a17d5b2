/**
 * Applies groups of commands to the slots of a cluster, each exactly once. Groups for one node travel in one
 * write; apply.lua decides for each of them whether it may be applied.
 *
 *   reply                    action
 *   applied, skipped         done
 *   fenced                   LeaseLostError: a newer run has claimed the slot
 *   MOVED, connection lost   the slot map is read again, and the group is sent to the new owner
 *   ASK                      the group is sent to that node, after ASKING
 *   TRYAGAIN, CLUSTERDOWN    retry after a pause: the slot is being moved, or a failover is under way
 *   OOM, READONLY, ...       retry after a pause, up to `stallMs`
 */
import {
  AbortedError,
  type Address,
  ConnectFailedError,
  ConnectionLostError,
  defineScript,
  LeaseLostError,
} from "@ropeway/core";
import { Backoff, showAddress, sleep } from "@ropeway/core/internal";
import { TargetRefusedError, TargetRewoundError } from "../errors.ts";
import { slotMarkKey } from "../keys.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";
import type { ClusterNodes } from "./nodes.ts";
import { SLOTS, slotTag } from "./slot-tags.ts";

/** Commands of one slot. */
export interface SlotGroup {
  readonly slot: number;
  /** The place in the stream that the slot has afterwards; undefined while loading. */
  readonly place: StreamPlace | undefined;
  /** The place that the slot has confirmed; an earlier one means that the target lost writes. */
  readonly confirmed?: StreamPlace | undefined;
  /** For groups without a place: applies the group once, although it may be sent again. */
  readonly once?: Once;
  readonly commands: readonly SlotCommand[];
  /** Keys that were read again, with the offset that their value includes; undefined removes the hold. */
  readonly holds: readonly (readonly [key: Buffer, offset: number | undefined])[];
}

/** Identifies a group within a sequence, whose groups for a slot are sent one after another. */
export interface Once {
  readonly sequence: string;
  readonly id: string;
}

/** A command of the stream: the offset at which its unit ends, and its step within the unit. */
export interface StreamPlace {
  readonly offset: number;
  readonly step: number;
  /** Where the unit begins. */
  readonly from: number;
}

/** Whether a place comes after another one. */
export function isAfter(a: StreamPlace, b: StreamPlace): boolean {
  return a.offset > b.offset || (a.offset === b.offset && a.step > b.step);
}

/** One command with its keys. */
export interface SlotCommand {
  readonly argv: readonly Buffer[];
  readonly keys: readonly Buffer[];
}

/** A command that failed. */
export interface SlotFailure {
  readonly group: SlotGroup;
  readonly command: SlotCommand;
  readonly reply: string;
}

/** How slots are written. */
export interface SlotWriterOptions {
  readonly nodes: ClusterNodes;
  readonly task: string;
  readonly shard: number;
  readonly stallMs: number;
  readonly signal: AbortSignal;
  onStall(reason: string | undefined): void;
  onRoundTrip(ms: number): void;
}

/** The content of a slot's mark. */
export interface SlotMark extends StreamPlace {
  readonly holds: ReadonlyMap<string, number>;
}

const APPLY = defineScript(new URL("../../lua/apply.lua", import.meta.url));
const CLAIM = defineScript(new URL("../../lua/claim.lua", import.meta.url));
const FLUSH = defineScript(new URL("../../lua/flush.lua", import.meta.url));
const SCRIPTS = [APPLY, CLAIM, FLUSH];
/** Lua cannot unpack more words than this. */
export const MOST_WORDS = 7_000;

/** Applies groups of commands to slots, each exactly once. */
export class SlotWriter {
  readonly #options: SlotWriterOptions;
  readonly #loaded = new WeakSet<Connection>();

  constructor(options: SlotWriterOptions) {
    this.#options = options;
  }

  /** Claims all slots for a run. Returns their marks. */
  async claim(epoch: number, offsets: "keep" | "reset"): Promise<Map<number, SlotMark>> {
    const marks = new Map<number, SlotMark>();
    const slots = Array.from({ length: SLOTS }, (_, slot) => slot);
    await this.#send(slots, {
      slotOf: (slot) => slot,
      encode: (slot) => ["EVALSHA", CLAIM.sha1, "1", this.#markKey(slot), String(epoch), offsets],
      done: (slot, reply) => {
        const [outcome, ...fields] = (reply as readonly Reply[]).map((word) =>
          Buffer.isBuffer(word) ? word.toString("latin1") : String(word),
        );
        if (outcome === "fenced") throw this.#lost(epoch);
        marks.set(slot, markOf(fields));
      },
    });
    return marks;
  }

  /** Applies groups. Resolves when all of them are applied, with the commands that failed. */
  async apply(epoch: number, groups: readonly SlotGroup[]): Promise<SlotFailure[]> {
    const failures: SlotFailure[] = [];
    await this.#send(groups, {
      slotOf: (group) => group.slot,
      encode: (group) => this.#encode(epoch, group),
      done: (group, reply) => {
        const [outcome, ...rest] = reply as readonly Reply[];
        if (String(outcome) === "fenced") throw this.#lost(epoch);
        if (String(outcome) === "rewound") throw this.#rewound(group, String(rest[0]));
        for (let at = 0; at + 1 < rest.length; at += 2) {
          const command = group.commands[Number(rest[at])];
          if (command !== undefined) failures.push({ group, command, reply: String(rest[at + 1]) });
        }
      },
    });
    return failures;
  }

  /** Empties every master. The checkpoint, which is in the slot `home`, is kept. */
  async flush(
    epoch: number,
    [name, option]: readonly Buffer[],
    home: { readonly slot: number; readonly key: string },
  ): Promise<void> {
    const { nodes } = this.#options;
    await nodes.refresh();
    const owners = await nodes.owners();
    const slots = (await nodes.masters()).map(({ firstSlot }) =>
      owners[firstSlot] === owners[home.slot] ? home.slot : firstSlot,
    );
    await this.#send(slots, {
      slotOf: (slot) => slot,
      encode: (slot) => {
        const keys = [this.#markKey(slot), ...(slot === home.slot ? [home.key] : [])];
        const words = [String(epoch), String(name).toUpperCase(), option ?? ""];
        return ["EVALSHA", FLUSH.sha1, String(keys.length), ...keys, ...words];
      },
      done: (_slot, reply) => {
        if (String((reply as readonly Reply[])[0]) === "fenced") throw this.#lost(epoch);
      },
    });
  }

  #encode(epoch: number, group: SlotGroup): Argument[] {
    const { slot, place, confirmed, once, commands, holds } = group;
    const keys = new Map<string, Buffer>();
    for (const command of commands) {
      for (const key of command.keys) keys.set(key.toString("latin1"), key);
    }
    return [
      ...["EVALSHA", APPLY.sha1, String(keys.size + 1), this.#markKey(slot)],
      ...keys.values(),
      ...[String(epoch), String(place?.offset ?? ""), String(place?.step ?? 0)],
      ...[
        String(place?.from ?? ""),
        String(confirmed?.offset ?? ""),
        String(confirmed?.step ?? ""),
      ],
      ...[once?.sequence ?? "", once?.id ?? ""],
      String(holds.length),
      ...holds.flatMap(([key, until]) => [key, String(until ?? "")]),
      ...commands.flatMap(({ argv }) => [String(argv.length), ...argv]),
    ];
  }

  /** Sends one command per item to the owner of its slot until each has its reply. */
  async #send<T>(items: readonly T[], { slotOf, encode, done }: Sending<T>): Promise<void> {
    const { nodes, signal, onStall, onRoundTrip } = this.#options;
    const backoff = new Backoff({ baseMs: 10, maxMs: 500 });
    const asking = new Map<T, Address>();
    let open = [...items];
    let stalledAt: number | undefined;
    while (open.length > 0) {
      if (signal.aborted) throw new AbortedError("writing to the target", signal.reason);
      const rounds = new Map<string, { address: Address; items: T[] }>();
      const again: T[] = [];
      let trouble: string | undefined;
      try {
        for (const item of open) {
          const address = asking.get(item) ?? (await nodes.addressOf(slotOf(item)));
          const name = showAddress(address);
          const round = rounds.get(name) ?? { address, items: [] };
          rounds.set(name, round);
          round.items.push(item);
        }
        const started = performance.now();
        await Promise.all(
          [...rounds.values()].map(async (round) => {
            const replies = await this.#exchange(round, asking, encode);
            round.items.forEach((item, at) => {
              const reply = replies[at] ?? new ErrorReply("CONNECTION lost");
              asking.delete(item);
              if (!(reply instanceof ErrorReply)) {
                done(item, reply);
                return;
              }
              trouble = reply.message;
              again.push(item);
              const ask = /^ASK \d+ (.+):(\d+)$/.exec(reply.message);
              if (ask) asking.set(item, { host: ask[1] ?? "", port: Number(ask[2]) });
            });
          }),
        );
        onRoundTrip(performance.now() - started);
      } catch (error) {
        if (!(error instanceof ConnectFailedError)) throw error;
        trouble = error.message;
        again.splice(0, again.length, ...open);
      }
      open = again;
      if (trouble === undefined) break;
      if (/^ASK /.test(trouble)) continue;
      if (!isPassing(trouble)) throw new TargetRefusedError(nodes.where, trouble, 0);
      onStall(trouble);
      stalledAt ??= performance.now();
      const waited = Math.round(performance.now() - stalledAt);
      if (waited > this.#options.stallMs && REFUSED.test(trouble)) {
        throw new TargetRefusedError(nodes.where, trouble, waited);
      }
      await sleep(backoff.next(), signal);
      await nodes.refresh().catch(() => {});
    }
    onStall(undefined);
  }

  /** The replies of one node; missing ones if its connection was lost. */
  async #exchange<T>(
    round: { address: Address; items: readonly T[] },
    asking: ReadonlyMap<T, Address>,
    encode: (item: T) => readonly Argument[],
  ): Promise<(Reply | undefined)[]> {
    const writer = new RespWriter();
    let count = 0;
    const connection = await this.#options.nodes.at(round.address).catch(() => undefined);
    if (connection === undefined) return [];
    if (!this.#loaded.has(connection)) {
      for (const { source } of SCRIPTS) writer.command(["SCRIPT", "LOAD", source]);
      count += SCRIPTS.length;
    }
    const places: number[] = [];
    for (const item of round.items) {
      if (asking.has(item)) {
        writer.command(["ASKING"]);
        count += 1;
      }
      places.push(count);
      writer.command(encode(item));
      count += 1;
    }
    try {
      const replies = await connection.exchange(writer.take(), count);
      // After a SCRIPT FLUSH the scripts are loaded again.
      if (replies.some((reply) => reply instanceof ErrorReply && /^NOSCRIPT/.test(reply.message))) {
        this.#loaded.delete(connection);
      } else this.#loaded.add(connection);
      return places.map((at) => replies[at]);
    } catch (error) {
      if (!(error instanceof ConnectionLostError || error instanceof ConnectFailedError))
        throw error;
      return [];
    }
  }

  #markKey(slot: number): string {
    const { task, shard } = this.#options;
    return slotMarkKey(task, shard, slotTag(slot));
  }

  #rewound({ slot, confirmed }: SlotGroup, found: string): TargetRewoundError {
    const where = `slot ${slot} of ${this.#options.nodes.where}`;
    return new TargetRewoundError(where, String(confirmed?.offset), found || undefined);
  }

  #lost(epoch: number): LeaseLostError {
    return new LeaseLostError(`sync task ${this.#options.task}`, epoch);
  }
}

/** How items are sent and how their replies are handled. */
interface Sending<T> {
  slotOf(item: T): number;
  encode(item: T): readonly Argument[];
  done(item: T, reply: Reply): void;
}

const REFUSED = /\b(OOM|READONLY|MISCONF|NOREPLICAS)\b/;

function isPassing(message: string): boolean {
  return /\b(MOVED|NOSCRIPT|TRYAGAIN|CLUSTERDOWN|LOADING|MASTERDOWN|BUSY|CONNECTION|OOM|READONLY|MISCONF|NOREPLICAS)\b|cannot connect/.test(
    message,
  );
}

function markOf(fields: readonly string[]): SlotMark {
  let offset = -1;
  let step = 0;
  let from = -1;
  const holds = new Map<string, number>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] as string;
    if (name === "offset") offset = Number(fields[at + 1]);
    else if (name === "step") step = Number(fields[at + 1]);
    else if (name === "from") from = Number(fields[at + 1]);
    else if (name.startsWith("h")) holds.set(name.slice(1), Number(fields[at + 1]));
  }
  return { offset, step, from, holds };
}
