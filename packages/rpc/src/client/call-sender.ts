/** Writes a unary call, registers it as waiting, and sends it. Plain calls take a shorter path. */
import { ConnectionLostError } from "@ropeway/core";
import { whenAborted } from "@ropeway/core/internal";
import { CancelledError } from "../errors.ts";
import type { Metadata, Progress } from "../wire/dialect.ts";
import { checkSize, paramsJson } from "../wire/params.ts";
import type { Exchange } from "./exchange.ts";
import { PendingCall, type ResultReader } from "./pending-call.ts";
import type { Outgoing, Placement } from "./placement.ts";
import type { Route } from "./route.ts";

/** How to send one call. */
export interface SendOptions {
  readonly timeoutMs: number;
  readonly whenDown: "queue" | "fail";
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly traceparent?: string | undefined;
  readonly metadata?: Metadata | undefined;
  /** The call is sent again if this attempt fails, so an unknown outcome counts as a failure. */
  readonly repeatable?: boolean | undefined;
  /** Cancels the call. */
  readonly signal?: AbortSignal | undefined;
  readonly reader?: ResultReader | undefined;
}

/** Sends unary calls. */
export class CallSender {
  readonly #exchange: Exchange;
  readonly #placement: Placement;

  constructor(exchange: Exchange, placement: Placement) {
    this.#exchange = exchange;
    this.#placement = placement;
  }

  /** The short path for frequent calls: default timeout, no options, no session. */
  sendPlain(route: Route, params: unknown, reader?: ResultReader): Promise<unknown> {
    const exchange = this.#exchange;
    const { plainMiddle } = route;
    const { timeoutMs, whenDown, maxMessageBytes } = exchange.options;
    const at = performance.now();
    if (plainMiddle === undefined || !exchange.usesReplyList(route.service, at)) {
      return this.send(route, params, { timeoutMs, whenDown, reader });
    }
    return new Promise((resolve, reject) => {
      const number = exchange.nextNumber();
      const call = { number, at, timeoutMs, sharesDeadline: true, reader };
      const pending = new PendingCall(exchange, route, call);
      pending.settles(resolve, reject);
      const json = paramsJson(route.method, params);
      const text = `${exchange.plainHead(at)}${number}"${plainMiddle}${json}}`;
      checkSize(text, maxMessageBytes, "the call");
      exchange.await(pending);
      exchange.expectReply();
      exchange.push(route.list, text, timeoutMs);
    });
  }

  /** Sends a call and waits for its response. */
  send(route: Route, params: unknown, options: SendOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { signal } = options;
      if (signal?.aborted) throw new CancelledError(`the call of ${route.name}`, signal.reason);
      const exchange = this.#exchange;
      const at = performance.now();
      const shared = exchange.usesReplyList(route.service, at);
      const id = exchange.nextId(shared);
      const { timeoutMs, reader } = options;
      const call = { id, number: 0, at, timeoutMs, sharesDeadline: false, reader };
      const pending = new PendingCall(exchange, route, call);
      pending.settles(resolve, reject);
      const message = this.#write(pending, params, { ...options, shared });
      this.#await(pending, message, { ...options, shared });
      this.#placement.place(message).catch((error) => {
        if (!exchange.has(pending)) return;
        if (error instanceof ConnectionLostError) pending.onUnsure(error);
        else pending.fail(error);
      });
    });
  }

  #write(
    { id, route, timeoutMs, sentAt }: PendingCall,
    params: unknown,
    options: SendOptions & { readonly shared: boolean },
  ): Outgoing {
    const { dialect, replyList, options: defaults } = this.#exchange;
    const text = dialect.encodeCall({
      id,
      method: route.method,
      params: paramsJson(route.method, params),
      deadline: this.#exchange.deadlineIn(timeoutMs, sentAt),
      timeoutMs,
      replyTo: options.shared ? replyList : undefined,
      track: options.onProgress !== undefined,
      traceparent: options.traceparent,
      metadata: options.metadata,
      session: this.#placement.mark,
    });
    checkSize(text, defaults.maxMessageBytes, "the call");
    const until = sentAt + timeoutMs;
    const { whenDown } = options;
    return { id, route, timeoutMs, until, text, list: route.list, wanted: true, whenDown };
  }

  /** From here on, the call gets a response, expires, or is cancelled. */
  #await(
    pending: PendingCall,
    message: Outgoing,
    options: SendOptions & { readonly shared: boolean },
  ): void {
    const { onProgress, repeatable, signal, shared } = options;
    const exchange = this.#exchange;
    const ends: (() => void)[] = [];
    pending.extras = {
      onProgress,
      failsOnLoss: repeatable === true,
      watched: !shared,
      onSettled: () => {
        message.wanted = false;
        this.#placement.release(message);
        for (const end of ends) end();
      },
    };
    exchange.await(pending);
    if (shared) exchange.expectReply();
    else ends.push(exchange.watch(pending, onProgress !== undefined));
    if (signal === undefined) return;
    ends.push(
      whenAborted(signal, () => {
        if (!exchange.has(pending)) return;
        pending.fail(new CancelledError(`the call of ${pending.route.name}`, signal.reason));
        exchange.withdrawals
          .cancel(message)
          .catch((error) =>
            exchange.redis.logger.debug({ err: error, id: pending.id }, "cannot cancel a call"),
          );
      }),
    );
  }
}
