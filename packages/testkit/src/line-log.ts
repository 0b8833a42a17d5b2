// Every line a process printed, in order. Readers can wait for a pattern, iterate over all lines, or
// take the last lines after a failure. Reading does not remove lines, so a late reader misses none.
import { EventEmitter, once } from "node:events";
import type { Readable } from "node:stream";
import { TestkitError } from "./errors.ts";

/** A line that matched, and its index. */
export interface FoundLine {
  readonly match: RegExpMatchArray;
  readonly index: number;
}

/** The lines of one or more streams as they arrive. */
export class LineLog implements AsyncIterable<string> {
  readonly #lines: string[] = [];
  readonly #changes = new EventEmitter().setMaxListeners(0);
  #feeding = 0;
  #ended = false;

  /** Adds a stream. The log ends when all its streams have ended. */
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

  /** The first match at or after line `from`. Rejects if there is none within `withinMs` or before the log ends. */
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
    return new TestkitError(
      "GAVE_UP",
      `no line matched ${pattern} ${when}; last lines:\n${this.tail()}`,
    );
  }

  /** All lines, until the log ends. */
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
