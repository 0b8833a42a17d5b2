/** The session of one call, for its handler and middleware. */
import type { SessionMark } from "../wire/dialect.ts";
import type { SessionInfo } from "./call-context.ts";

/** The calls of a session that were run here. */
export interface SessionHistory {
  /** The epoch of the latest call that ran. */
  run: number | undefined;
}

/**
 * Whether a session is new is decided when a handler starts and not when its call arrives. A call that its schema
 * or middleware refuses does not use up the mark.
 */
export class SessionCall implements SessionInfo {
  readonly group: string;
  readonly client: string | undefined;
  isNew: boolean;
  readonly epoch: number | undefined;
  readonly #history: SessionHistory | undefined;

  constructor(group: string, mark: SessionMark | undefined, history: SessionHistory | undefined) {
    this.group = group;
    this.client = mark?.client;
    this.epoch = mark?.epoch;
    this.isNew = history !== undefined && history.run !== mark?.epoch;
    this.#history = history;
  }

  /** Call it when the handler starts: from now on the session is not new for other calls. */
  begin(): void {
    if (this.#history === undefined) return;
    this.isNew = this.#history.run !== this.epoch;
    this.#history.run = this.epoch;
  }
}
