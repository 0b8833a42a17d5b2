// Every line a process printed, in order, for three kinds of reader: one that waits for a pattern,
// one that walks all lines, and one that wants the tail after a failure. Nothing is consumed:
// lines are kept until the process object goes, so a reader that comes late misses nothing.
import { EventEmitter, once } from "node:events";
import type { Readable } from "node:stream";
import { TestkitError } from "./errors.ts";

/** A line that matched, and where it stood. */
export interface FoundLine {
  readonly match: RegExpMatchArray;
  readonly index: number;
}

/** The lines of one or more streams as they come in. */
export class LineLog implements AsyncIterable<string> {
  readonly #lines: string[] = [];
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #feeding = 0;
  #ended = false;

  /** Adds a stream; the log ends when all its streams have. */
  feed(stream: Readable): void {
    let partial = "";
    this.#feeding++;
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      const pieces = (partial + text).split("\n");
      partial = pieces.pop() ?? "";
      this.#append(pieces);
    });
    stream.once("close", () => {
      if (partial !== "") this.#append([partial]);
      this.#feeding--;
      if (this.#feeding === 0) this.#end();
    });
  }

  #append(lines: readonly string[]): void {
    for (const line of lines) this.#lines.push(line.replace(/\r$/, ""));
    if (lines.length > 0) this.#changes.emit("change");
  }

  #end(): void {
    this.#ended = true;
    this.#changes.emit("change");
  }

  /** The first line at or after `from` that matches; rejects when the log ends or `withinMs` passes without one. */
  async find(
    pattern: RegExp,
    { from = 0, withinMs }: { from?: number; withinMs: number },
  ): Promise<FoundLine> {
    const bound = new AbortController();
    const timer = setTimeout(() => bound.abort(), withinMs);
    try {
      for (let index = from; ; index++) {
        while (index >= this.#lines.length) {
          if (this.#ended) throw this.#notFound(pattern, "before it ended");
          await once(this.#changes, "change", { signal: bound.signal });
        }
        const match = this.#lines[index]?.match(pattern);
        if (match) return { match, index };
      }
    } catch (cause) {
      if (bound.signal.aborted) throw this.#notFound(pattern, `within ${withinMs} ms`);
      throw cause;
    } finally {
      clearTimeout(timer);
    }
  }

  #notFound(pattern: RegExp, when: string): TestkitError {
    return new TestkitError("GAVE_UP", `no line ${pattern} ${when}; last lines:\n${this.tail()}`);
  }

  /** All lines from the first on, until the log ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string> {
    for (let index = 0; ; index++) {
      while (index >= this.#lines.length) {
        if (this.#ended) return;
        await once(this.#changes, "change");
      }
      yield this.#lines[index] as string;
    }
  }

  /** The last lines, for the message of a failed test. */
  tail(count = 40): string {
    return this.#lines.slice(-count).join("\n");
  }
}
