/** What every store must do. Each store's test file runs this with a server of its own. */
import { InvalidArgumentError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store, WatchEvent } from "../src/store/store.ts";

/** A server, and stores on it. */
export interface StoreStage {
  open(): Promise<Store>;
  /** kill -9 and start again with the data. */
  restart(): Promise<void>;
  /** Forgets history up to and including the revision. */
  compact(store: Store, revision: number): Promise<void>;
  close(): Promise<void>;
}

let serial = 0;
const fresh = () => `/t${process.pid}_${++serial}`;

/** Collects the events of a watch until closed. */
export function collect(store: Store, prefix: string, from: number) {
  const abort = new AbortController();
  const events: WatchEvent[] = [];
  const done = (async () => {
    for await (const batch of store.watch({ prefix, from, signal: abort.signal })) {
      events.push(...batch);
    }
  })();
  done.catch(() => {});
  return {
    events,
    done,
    async stop() {
      abort.abort();
      await done.catch(() => {});
    },
    seen: () => events.map(({ type, entry }) => `${type} ${entry.key} ${entry.value}`),
  };
}

export function storeConformance(name: string, make: () => Promise<StoreStage>): void {
  describe(`the ${name} store`, () => {
    let stage: StoreStage;
    let store: Store;
    beforeAll(async () => {
      stage = await make();
      store = await stage.open();
    }, 60_000);
    afterAll(async () => {
      await store?.close();
      await stage?.close();
    });

    describe("keys", () => {
      it("keeps a value with its revisions and version", async () => {
        const key = `${fresh()}/a`;
        expect(await store.get(key)).toBeUndefined();
        const first = await store.put(key, "one");
        const second = await store.put(key, "zwei ü 🚡");
        expect(second).toBeGreaterThan(first);
        expect(await store.get(key)).toEqual({
          key,
          value: "zwei ü 🚡",
          createRevision: first,
          modRevision: second,
          version: 2,
          lease: undefined,
        });
        expect(await store.delete(key)).toBe(true);
        expect(await store.delete(key)).toBe(false);
        const again = await store.put(key, "three");
        expect((await store.get(key))?.createRevision).toBe(again);
        expect(again).toBeGreaterThan(second);
      });

      it("reads a prefix in order, page by page, without its neighbours", async () => {
        const root = fresh();
        for (const name of ["1/b", "1/a", "10/x", "1/c", "2/y"])
          await store.put(`${root}/${name}`, name);
        const all = await store.range(`${root}/1/`);
        expect(all.entries.map(({ value }) => value)).toEqual(["1/a", "1/b", "1/c"]);
        expect(all.more).toBe(false);
        const page = await store.range(`${root}/1/`, { limit: 2 });
        expect(page.entries.map(({ value }) => value)).toEqual(["1/a", "1/b"]);
        expect(page.more).toBe(true);
        const rest = await store.range(`${root}/1/`, { after: page.entries[1]?.key, limit: 2 });
        expect(rest.entries.map(({ value }) => value)).toEqual(["1/c"]);
        expect(rest.more).toBe(false);
        expect((await store.range(`${fresh()}/`)).entries).toEqual([]);
      });

      it("refuses bad input and changes nothing", async () => {
        await expect(store.get("no-slash")).rejects.toThrow(InvalidArgumentError);
        await expect(store.range("/no/end")).rejects.toThrow(InvalidArgumentError);
        await expect(store.put(`${fresh()}/\ud800`, "v")).rejects.toThrow(InvalidArgumentError);
        await expect(store.range("/x/", { limit: Number.NaN })).rejects.toThrow(
          InvalidArgumentError,
        );
        const key = fresh();
        const twice = { op: "put", key, value: "x" } as const;
        await expect(store.txn({ do: [twice, twice] })).rejects.toThrow(InvalidArgumentError);
        const many = Array.from({ length: 129 }, (_, i) => ({
          op: "put" as const,
          key: `${key}/${i}`,
          value: "",
        }));
        await expect(store.txn({ do: many })).rejects.toThrow(InvalidArgumentError);
        expect(await store.get(key)).toBeUndefined();
      });
    });

    describe("transactions", () => {
      it("carries out one list or the other", async () => {
        const root = fresh();
        const [a, b] = [`${root}/a`, `${root}/b`];
        const absent = { key: a, target: "create", is: "=", than: 0 } as const;
        const created = await store.txn({
          if: [absent],
          do: [
            { op: "put", key: a, value: "A" },
            { op: "put", key: b, value: "B" },
          ],
        });
        expect(created.succeeded).toBe(true);
        expect((await store.get(a))?.modRevision).toBe(created.revision);
        expect((await store.get(b))?.modRevision).toBe(created.revision);
        const refused = await store.txn({
          if: [absent],
          do: [{ op: "delete", key: b }],
          else: [
            { op: "get", key: a },
            { op: "get", key: `${root}/none` },
          ],
        });
        expect(refused.succeeded).toBe(false);
        expect(refused.found[0]?.value).toBe("A");
        expect(refused.found[1]).toBeUndefined();
        expect((await store.get(b))?.value).toBe("B");
      });

      it("compares values, versions and revisions", async () => {
        const key = fresh();
        const holds = async (compare: object) =>
          (await store.txn({ if: [{ key, ...compare } as never], do: [] })).succeeded;
        expect(await holds({ target: "value", is: "=", than: "" })).toBe(false);
        expect(await holds({ target: "value", is: "!=", than: "x" })).toBe(false);
        expect(await holds({ target: "version", is: "=", than: 0 })).toBe(true);
        await store.put(key, "1");
        const revision = await store.put(key, "2");
        expect(await holds({ target: "value", is: "=", than: "2" })).toBe(true);
        expect(await holds({ target: "value", is: "!=", than: "2" })).toBe(false);
        expect(await holds({ target: "version", is: ">", than: 1 })).toBe(true);
        expect(await holds({ target: "version", is: "<", than: 2 })).toBe(false);
        expect(await holds({ target: "mod", is: "=", than: revision })).toBe(true);
        expect(await holds({ target: "create", is: "<", than: revision })).toBe(true);
        expect(await holds({ target: "create", is: "!=", than: 0 })).toBe(true);
      });

      it("lets exactly one of many contenders win each step", async () => {
        const key = fresh();
        await store.put(key, "0");
        const others = await Promise.all([stage.open(), stage.open(), stage.open()]);
        let lost = 0;
        const count = async (mine: Store) => {
          for (let done = 0; done < 25; ) {
            const seen = await mine.get(key);
            const { succeeded } = await mine.txn({
              if: [{ key, target: "mod", is: "=", than: seen?.modRevision ?? 0 }],
              do: [{ op: "put", key, value: String(Number(seen?.value) + 1) }],
            });
            if (succeeded) done++;
            else lost++;
          }
        };
        await Promise.all(others.map(count));
        expect((await store.get(key))?.value).toBe("75");
        expect(lost).toBeGreaterThan(0);
        await Promise.all(others.map((one) => one.close()));
      });
    });

    describe("leases", () => {
      it("removes the keys of a lease that nobody renews, and reports it", async () => {
        const root = fresh();
        const { id, ttlMs } = await store.grant(2_000);
        expect(ttlMs).toBeGreaterThanOrEqual(2_000);
        const revision = await store.put(`${root}/held`, "v", id);
        await store.put(`${root}/free`, "v");
        expect((await store.get(`${root}/held`))?.lease).toBe(id);
        const watch = collect(store, `${root}/`, revision);
        await eventually(async () => expect(await store.get(`${root}/held`)).toBeUndefined(), {
          withinMs: 10_000,
        });
        await eventually(() => expect(watch.seen()).toContain(`delete ${root}/held `));
        expect(await store.get(`${root}/free`)).toBeDefined();
        expect(await store.keepAlive(id)).toBe(0);
        await expect(store.put(`${root}/late`, "v", id)).rejects.toMatchObject({
          code: "STORE_REFUSED",
        });
        expect(await store.get(`${root}/late`)).toBeUndefined();
        await watch.stop();
      });

      it("keeps the keys of a lease that is renewed, and drops them when it is revoked", async () => {
        const key = fresh();
        const { id } = await store.grant(2_000);
        await store.put(key, "v", id);
        const until = performance.now() + 4_000;
        while (performance.now() < until) {
          expect(await store.keepAlive(id)).toBeGreaterThan(0);
          await new Promise((resolve) => setTimeout(resolve, 300));
        }
        expect(await store.get(key)).toBeDefined();
        await store.revoke(id);
        await store.revoke(id);
        expect(await store.get(key)).toBeUndefined();
        expect(await store.keepAlive(id)).toBe(0);
      });

      it("does not remove a key that was put again without the lease", async () => {
        const key = fresh();
        const { id } = await store.grant(5_000);
        await store.put(key, "held", id);
        await store.put(key, "free");
        await store.revoke(id);
        expect((await store.get(key))?.value).toBe("free");
      });
    });

    describe("watches", () => {
      it("reports history and then changes, once and in order, only of its prefix", async () => {
        const root = fresh();
        const first = await store.put(`${root}/1/a`, "1");
        await store.put(`${root}/10/a`, "other");
        await store.put(`${root}/1/a`, "2");
        const watch = collect(store, `${root}/1/`, first);
        await eventually(() => expect(watch.events).toHaveLength(2));
        await store.txn({
          do: [
            { op: "delete", key: `${root}/1/a` },
            { op: "put", key: `${root}/1/b`, value: "3" },
          ],
        });
        await store.put(`${root}/2/a`, "other");
        await eventually(() => expect(watch.events).toHaveLength(4));
        expect(watch.seen()).toEqual([
          `put ${root}/1/a 1`,
          `put ${root}/1/a 2`,
          `delete ${root}/1/a `,
          `put ${root}/1/b 3`,
        ]);
        const [, , deletion, created] = watch.events;
        expect(deletion?.entry.modRevision).toBe(created?.entry.modRevision);
        expect(created?.entry.version).toBe(1);
        await watch.stop();
      });

      it("watches one key", async () => {
        const key = fresh();
        const from = (await store.put(`${key}x`, "neighbour")) + 1;
        const watch = collect(store, key, from);
        await store.put(`${key}x`, "neighbour");
        await store.put(key, "mine");
        await eventually(() => expect(watch.seen()).toEqual([`put ${key} mine`]));
        await watch.stop();
      });

      it("reports at once what changed while its reader was busy and another watch was told", async () => {
        const root = fresh();
        const from = (await store.put(root, "0")) + 1;
        const other = collect(store, `${root}/`, from);
        const abort = new AbortController();
        const seen: string[] = [];
        const reading = (async () => {
          for await (const batch of store.watch({
            prefix: `${root}/`,
            from,
            signal: abort.signal,
          })) {
            seen.push(...batch.map(({ entry }) => entry.value));
            if (seen.length > 1) continue;
            await store.put(`${root}/b`, "2");
            await eventually(() => expect(other.events).toHaveLength(2));
            await store.get(root); // by now the other one waits for the next change
          }
        })();
        await store.put(`${root}/a`, "1");
        // A watch that waits for the next change looks by itself after 5 s.
        await eventually(() => expect(seen).toEqual(["1", "2"]), { withinMs: 4_000 });
        abort.abort();
        await Promise.all([reading, other.stop()]);
      });

      it("goes on after a restart of the server, without a gap and without a repetition", async () => {
        const root = fresh();
        const writer = await stage.open();
        const from = await writer.put(`${root}/n`, "0");
        const watch = collect(store, `${root}/`, from);
        const expected = ["0"];
        for (let n = 1; n <= 30; n++) {
          if (n === 10 || n === 20) await stage.restart();
          await eventually(() => writer.put(`${root}/n`, String(n)), { withinMs: 15_000 });
          expected.push(String(n));
        }
        await eventually(
          () => {
            // A write whose response was lost may have been made twice; the watch shows both.
            const seen = watch.events.map(({ entry }) => entry.value);
            expect([...new Set(seen)]).toEqual(expected);
            const revisions = watch.events.map(({ entry }) => entry.modRevision);
            expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => a - b));
          },
          { withinMs: 15_000 },
        );
        await watch.stop();
        await writer.close();
      }, 60_000);

      it("says that history is gone instead of skipping it", async () => {
        const root = fresh();
        const first = await store.put(`${root}/a`, "1");
        await store.put(`${root}/a`, "2");
        const third = await store.put(`${root}/a`, "3");
        await stage.compact(store, third - 1);
        const late = collect(store, `${root}/`, first);
        await expect(late.done).rejects.toMatchObject({ code: "COMPACTED" });
        const now = collect(store, `${root}/`, third);
        await eventually(() => expect(now.seen()).toEqual([`put ${root}/a 3`]));
        await now.stop();
      });

      it("refuses to wait for a revision that is far away: the store went back", async () => {
        const prefix = `${fresh()}/`;
        const revision = await store.put(`${prefix}a`, "1");
        const ahead = collect(store, prefix, revision + 1_000_000);
        await expect(ahead.done).rejects.toMatchObject({ code: "COMPACTED" });
        const next = collect(store, prefix, revision + 1);
        await store.put(`${prefix}a`, "2");
        await eventually(() => expect(next.seen()).toEqual([`put ${prefix}a 2`]));
        await next.stop();
      });

      it("replays a long history completely", async () => {
        const root = fresh();
        const from = (await store.put(`${root}/start`, "")) + 1;
        for (let n = 0; n < 1_500; n += 50) {
          await Promise.all(
            Array.from({ length: 50 }, (_, i) => store.put(`${root}/k${n + i}`, "v")),
          );
        }
        const watch = collect(store, `${root}/`, from);
        await eventually(() => expect(watch.events).toHaveLength(1_500), { withinMs: 10_000 });
        expect(new Set(watch.events.map(({ entry }) => entry.key)).size).toBe(1_500);
        await watch.stop();
      }, 30_000);
    });

    it("tells its version and revision", async () => {
      const revision = await store.put(fresh(), "v");
      const status = await store.status();
      expect(status.revision).toBeGreaterThanOrEqual(revision);
      expect(status.version).toMatch(/^\d+\.\d+/);
    });
  });
}
