/** The session of one call, as its handler and middleware see it. */
import type { SessionMark } from "../wire/dialect.ts";
import type { SessionInfo } from "./call-context.ts";

/** Which calls of a session were run here. */
export interface SessionHistory {
  /** The epoch of the latest call that was run. */
  run: number | undefined;
}

/**
 * Whether a session is new is decided when a handler begins and not when its call comes: a call that its schema
 * or middleware refuses tells no handler that the session is new.
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

  /** The handler begins: from now on the session is not new for the others. */
  begin(): void {
    if (this.#history === undefined) return;
    this.isNew = this.#history.run !== this.epoch;
    this.#history.run = this.epoch;
  }
}
