/**
 * Sends a worker's responses. They are collected per list and event (see PushBuffer), and recent
 * responses are kept: a caller whose connection broke may have lost responses that Redis had
 * already sent to its socket, and requests them again by id.
 */
import type { Redis } from "@ropeway/core";
import type { WireError } from "../errors.ts";
import { PushBuffer } from "../store/push-buffer.ts";
import { isPassing } from "../store/refusal.ts";
import type { Dialect, IncomingCall } from "../wire/dialect.ts";
import { boundError } from "../wire/params.ts";

/** How long responses are kept for such requests. */
const REMEMBER_MS = 30_000;
const REMEMBER_CHARS = 4 * 1024 * 1024;
/** The limits of one entry. With an entry per response, removing the oldest of 50,000 would cost more than a call. */
const ENTRY_MS = 1_000;
const ENTRY_CHARS = 64 * 1024;

/** Responses to one list, which are forgotten together. */
interface Sent {
  readonly list: string;
  readonly elements: string[];
  chars: number;
  /** When the last of them was sent; by performance.now(). */
  at: number;
  /** When the first of them was sent. */
  readonly since: number;
}

/** The limits of responses. */
export interface ReplyWriterOptions {
  /** How long responses wait for their caller. */
  readonly ttlSeconds: number;
  readonly maxMessageBytes: number;
}

/** The call that a response belongs to. */
export type Addressee = Pick<IncomingCall, "id" | "method" | "replyTo">;

/** The responses of one worker. */
export class ReplyWriter {
  readonly pushes: PushBuffer;
  readonly #dialect: Dialect;
  readonly #ttlSeconds: number;
  readonly #maxMessageBytes: number;
  /** The prefix of reply lists. */
  readonly #replyLists: string;
  /** The latest list that was recognised as a reply list, which most responses go to. */
  #latest: string | undefined;
  readonly #recent: Sent[] = [];
  #recentChars = 0;

  constructor(redis: Redis, dialect: Dialect, options: ReplyWriterOptions) {
    const { ttlSeconds } = options;
    this.#dialect = dialect;
    this.#ttlSeconds = ttlSeconds;
    this.#maxMessageBytes = options.maxMessageBytes;
    this.#replyLists = dialect.keys.reply("");
    this.pushes = new PushBuffer(redis, {
      push: dialect.push,
      repeatable: true,
      packs: (list) => this.#isReplyList(list),
      expiresAtOnce: (list) => !this.#isReplyList(list),
      isPassing,
      insistMs: ttlSeconds * 1_000, // no caller reads it later
      onError: (error, elements, list) =>
        redis.logger.error({ err: error, list, elements: elements.length }, "responses were lost"),
      onFlush: (elements, list) => this.remember(list, elements),
    });
  }

  /** The list of a response: the one that its caller named, if that is a reply list, or its own key. */
  listFor(to: Addressee): string {
    return this.#shared(to) ?? this.#dialect.keys.response(to.method, to.id);
  }

  result(to: Addressee, json: string): string {
    return this.#dialect.encodeResult(to.id, json, this.#shared(to) !== undefined);
  }

  error(to: Addressee, error: WireError): string {
    const bounded = boundError(error, this.#maxMessageBytes);
    return this.#dialect.encodeError(to.id, bounded, this.#shared(to) !== undefined);
  }

  /** Sends a text to a list that expires. */
  post(list: string, text: string): void {
    this.pushes.push(list, text, this.#ttlSeconds);
  }

  remember(list: string, elements: readonly string[]): void {
    let chars = 0;
    for (const element of elements) chars += element.length;
    const at = performance.now();
    const newest = this.#recent.at(-1);
    if (newest?.list === list && newest.chars < ENTRY_CHARS && at - newest.since < ENTRY_MS) {
      for (const element of elements) newest.elements.push(element);
      newest.chars += chars;
      newest.at = at;
    } else {
      this.#recent.push({ list, elements: [...elements], chars, at, since: at });
    }
    this.#recentChars += chars;
    for (let oldest = this.#recent[0]; oldest !== undefined; oldest = this.#recent[0]) {
      if (this.#recentChars <= REMEMBER_CHARS && at - oldest.at < REMEMBER_MS) break;
      this.#recent.shift();
      this.#recentChars -= oldest.chars;
    }
  }

  /** Sends the kept responses of these calls again. */
  again(ids: readonly string[]): void {
    const wanted = new Set<unknown>(ids);
    // After an outage, all clients ask. Parsing everything for each of them would keep the worker from its calls.
    const common = commonStart(ids);
    for (const { list, elements } of [...this.#recent]) {
      for (const element of elements.filter((text) => text.includes(common))) {
        for (const message of [JSON.parse(element)].flat() as { readonly id?: unknown }[]) {
          if (wanted.has(message.id)) this.post(list, JSON.stringify(message));
        }
      }
    }
  }

  drained(): Promise<void> {
    return this.pushes.drained();
  }

  /** Only reply lists, so that no caller can make a worker push into another key. */
  #shared(to: Addressee): string | undefined {
    const { replyTo } = to;
    if (replyTo === undefined || replyTo === this.#latest) return replyTo;
    if (!this.#isReplyList(replyTo)) return undefined;
    this.#latest = replyTo;
    return replyTo;
  }

  /** In the kw wire, the keys of a function may have the same prefix, but contain another ":". */
  #isReplyList(list: string): boolean {
    return list.startsWith(this.#replyLists) && !list.includes(":", this.#replyLists.length);
  }
}

/** The longest start of all ids that is written in JSON as it is. The ids of one client begin alike. */
function commonStart([first = "", ...others]: readonly string[]): string {
  let length = first.search(/[^\w.-]|$/);
  for (const other of others) while (!other.startsWith(first.slice(0, length))) length -= 1;
  return first.slice(0, length);
}
