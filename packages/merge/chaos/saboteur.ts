/**
 * Imitates operators and a full Redis at random: pushes, deletes, replays, discards, pauses and resumes its
 * own keys, and makes Redis run out of memory for a moment. It cleans up when it is closed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DeadLetters, Inspector, keyOf, type MergeQueue } from "@ropeway/merge";
import { eventually, type RedisServer } from "@ropeway/testkit";

/** The queue and endpoint of a saboteur. */
export interface SaboteurOptions {
  readonly queue: MergeQueue;
  readonly server: RedisServer;
  readonly random: () => number;
  /** An endpoint that always fails. */
  readonly url: string;
}

const KEYS = 10;

/** Disturbs a queue until it is closed. */
export class Saboteur {
  readonly #options: SaboteurOptions;
  readonly #over = new AbortController();
  #running: Promise<void> | undefined;
  sabotages = 0;

  constructor(options: SaboteurOptions) {
    this.#options = options;
  }

  start(everyMs: number | undefined): void {
    if (everyMs !== undefined) this.#running = this.#run(everyMs);
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#running;
    if (this.#running === undefined) return;
    this.#running = undefined;
    const { queue, server, url } = this.#options;
    await server.command("CONFIG", "SET", "maxmemory", "0");
    const inspector = new Inspector(queue);
    for (let i = 0; i < KEYS; i++) {
      await inspector.remove(this.#key(i));
      await inspector.resume(this.#key(i));
    }
    // A batch in flight may still become a dead letter.
    await eventually(
      async () => {
        await new DeadLetters(queue).discardAll({ url });
        const found = await server.command("KEYS", `${queue.options.prefix}:queue:s* ${url} *`);
        const left: string[] = [];
        for (const key of found as string[]) {
          // The mark of a deleted key, for idempotency keys, expires by itself.
          const expires = Number(await server.command("PTTL", key)) > 0;
          if (!(key.endsWith(":deleted") && expires)) left.push(key);
        }
        if (left.length > 0) throw new Error(`keys are left: ${left}`);
      },
      { withinMs: 30_000 },
    );
  }

  #key(i: number): string {
    return keyOf({ mergeKey: `s${i}`, method: "POST", url: this.#options.url }, "");
  }

  async #run(everyMs: number): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      await sleep(everyMs * (0.5 + this.#options.random()), undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await this.#act().catch(() => {}); // Redis may be down or full on purpose
      this.sabotages += 1;
    }
  }

  async #act(): Promise<void> {
    const { queue, server, random, url } = this.#options;
    const inspector = new Inspector(queue);
    const letters = new DeadLetters(queue);
    const key = this.#key(Math.floor(random() * KEYS));
    const request = { attempts: 2 };
    const acts: (() => Promise<unknown>)[] = [
      () => queue.push(key, "1", { request }),
      () => queue.push(key, "2", { request, at: 4_000_000_000_000 }),
      () => inspector.remove(key),
      () => inspector.sendNow(key),
      () => letters.replayAll({ url }),
      () => letters.discardAll({ url, until: Date.now() - 1_000 }),
      () => inspector.pause(key),
      () => inspector.resume(key),
      async () => {
        await server.command("CONFIG", "SET", "maxmemory", "1");
        await sleep(20);
        await server.command("CONFIG", "SET", "maxmemory", "0");
      },
    ];
    await acts[Math.floor(random() * acts.length)]?.();
  }
}
