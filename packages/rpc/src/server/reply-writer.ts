/**
 * Where a worker's answers leave. They are gathered per list and event (see PushBuffer), and what has left
 * lately is remembered: a caller whose connection broke may have lost answers that Redis had already
 * handed to its socket, and asks for them again by id.
 */
import type { Redis } from "@ropeway/core";
import type { WireError } from "../errors.ts";
import { PushBuffer } from "../store/push-buffer.ts";
import type { Dialect, IncomingCall } from "../wire/dialect.ts";

/** How far answers can be asked for again. */
const REMEMBER_MS = 30_000;
const REMEMBER_CHARS = 4 * 1024 * 1024;

interface Posted {
  readonly list: string;
  readonly elements: readonly string[];
  readonly chars: number;
  readonly at: number;
}

/** Whose answer it is. */
export type Addressee = Pick<IncomingCall, "id" | "method" | "replyTo">;

/** See the top of the file. */
export class ReplyWriter {
  readonly #dialect: Dialect;
  readonly pushes: PushBuffer;
  readonly #ttlSeconds: number;
  /** How the names of reply lists begin. */
  readonly #replyLists: string;
  readonly #recent: Posted[] = [];
  #recentChars = 0;

  constructor(redis: Redis, dialect: Dialect, ttlSeconds: number) {
    this.#dialect = dialect;
    this.#ttlSeconds = ttlSeconds;
    this.#replyLists = dialect.keys.reply("");
    this.pushes = new PushBuffer(redis, {
      push: dialect.push,
      repeatable: true,
      packs: (list) => this.#isReplyList(list),
      onError: (error, elements, list) =>
        redis.logger.error({ err: error, list, elements }, "answers could not be sent"),
      onFlush: (elements, list) => this.remember(list, elements),
    });
  }

  /** The list an answer goes to: the one its caller named, if that is a reply list, or its own key. */
  listFor(to: Addressee): string {
    return this.#shared(to) ?? this.#dialect.keys.response(to.method, to.id);
  }

  result(to: Addressee, json: string): string {
    return this.#dialect.encodeResult(to.id, json, this.#shared(to) !== undefined);
  }

  error(to: Addressee, error: WireError): string {
    return this.#dialect.encodeError(to.id, error, this.#shared(to) !== undefined);
  }

  /** Sends a text to a list that expires. */
  post(list: string, text: string): void {
    this.pushes.push(list, text, this.#ttlSeconds);
  }

  remember(list: string, elements: readonly string[]): void {
    let chars = 0;
    for (const element of elements) chars += element.length;
    const at = performance.now();
    this.#recent.push({ list, elements, chars, at });
    this.#recentChars += chars;
    for (let oldest = this.#recent[0]; oldest !== undefined; oldest = this.#recent[0]) {
      if (this.#recentChars <= REMEMBER_CHARS && at - oldest.at < REMEMBER_MS) break;
      this.#recent.shift();
      this.#recentChars -= oldest.chars;
    }
  }

  /** Sends the remembered answers of these calls once more. */
  again(ids: readonly string[]): void {
    const wanted = new Set<unknown>(ids);
    for (const { list, elements } of [...this.#recent]) {
      for (const element of elements) {
        for (const message of [JSON.parse(element)].flat() as { readonly id?: unknown }[]) {
          if (wanted.has(message.id)) this.post(list, JSON.stringify(message));
        }
      }
    }
  }

  drained(): Promise<void> {
    return this.pushes.drained();
  }

  /** Only our own reply lists: nobody makes a worker push into a key of his choice. */
  #shared(to: Addressee): string | undefined {
    const { replyTo } = to;
    return replyTo !== undefined && this.#isReplyList(replyTo) ? replyTo : undefined;
  }

  /** In the kw wire the keys of a function may begin like that too, and go on with another ":". */
  #isReplyList(list: string): boolean {
    return list.startsWith(this.#replyLists) && !list.includes(":", this.#replyLists.length);
  }
}
