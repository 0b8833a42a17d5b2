import { otherServer, startRedis } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { verify } from "../src/verify/verify.ts";
import { askModel } from "./ask-model.ts";
import { fill } from "./data-set.ts";
import { IndependentRedis } from "./independent-redis.ts";
import { PlainRedis } from "./plain-redis.ts";

const VERSIONS = ["redis-6.0", "redis-7.0", "redis-8.0", "valkey-8.1"] as const;
const FIELD_EXPIRY = new Set<string>(["redis-8.0"]);
const CONFIG = ["repl-diskless-sync-delay 0"];

/** Changes of every kind that only a stream shows. */
async function change(redis: PlainRedis): Promise<void> {
  const commands = [
    ["SET", "live:string", "v", "EX", "100000"],
    ["INCRBYFLOAT", "live:float", "1.5"],
    ["RPUSH", "live:list", "a", "b", "c", "d"],
    ["LPOP", "live:list"],
    ["SADD", "live:set", "1", "2", "3"],
    ["SPOP", "live:set"],
    ["HSET", "live:hash", "a", "1", "b", "2"],
    ["ZADD", "live:zset", "1", "a", "2", "b"],
    ["ZPOPMIN", "live:zset"],
    ["XADD", "live:stream", "*", "k", "v"],
    ["XGROUP", "CREATE", "live:stream", "g", "0"],
    ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "live:stream", ">"],
    ["RENAME", "live:float", "live:renamed"],
    ["MULTI"],
    ["SET", "live:a", "1"],
    ["UNLINK", "s:text", "l:one"],
    ["EXEC"],
    ["SETRANGE", "s:leading", "10", "tail"],
    ["SELECT", "3"],
    ["SET", "live:db3", "x"],
    ["SELECT", "0"],
  ];
  for (const command of commands) await redis.send(...(command as [string, ...string[]]));
}

for (const from of VERSIONS) {
  for (const to of VERSIONS) {
    const reason = otherServer(from).reason ?? otherServer(to).reason;
    describe.skipIf(reason !== undefined)(`${from} to ${to} ${reason ?? ""}`, () => {
      for (const path of ["auto", "slow"] as const) {
        test(`every type arrives, ${path} path`, { timeout: 60_000 }, async () => {
          await using source = await startRedis({ version: from, config: CONFIG });
          await using target = await startRedis({ version: to, config: CONFIG });
          await using here = await PlainRedis.open(source);
          await using left = new IndependentRedis(source);
          await using right = new IndependentRedis(target);
          await fill(here, from);
          // No older server can hold the expiry of a hash field: those two keys are discarded.
          const lost = FIELD_EXPIRY.has(from) && !FIELD_EXPIRY.has(to) ? 2 : 0;
          const ends = { from: source.url, to: target.url, name: "matrix" };
          await using task = new SyncTask({ ...ends, path, maxErrors: lost, bigBytes: 100_000 });
          await task.start();
          await change(here);
          const report = await eventuallyEqual(() => verify(ends), lost);
          expect(report).toMatchObject({ different: lost, undecided: 0 });
          expect(task.progress().errors).toBe(lost);
          for (const db of [0, 3]) {
            for (const side of [left, right]) await side.send("SELECT", db);
            const keys = (await left.send("KEYS", "*")) as Buffer[];
            const names = (list: unknown) =>
              (list as Buffer[]).map((key) => key.toString("hex")).sort();
            const arrived = ((await right.send("KEYS", "*")) as Buffer[]).filter(
              (key) => !key.toString("latin1").startsWith("ropeway:"),
            );
            if (lost === 0) expect(names(arrived)).toEqual(names(keys));
            for (const key of keys) {
              if (lost > 0 && key.toString().startsWith("hx:")) continue;
              const name = `${db}:${key.toString("latin1").slice(0, 60)}`;
              expect([name, await askModel(right, key)]).toEqual([name, await askModel(left, key)]);
            }
          }
        });
      }
    });
  }
}

async function eventuallyEqual(
  compare: () => ReturnType<typeof verify>,
  lost: number,
): ReturnType<typeof verify> {
  let report = await compare();
  for (let attempt = 0; attempt < 20 && report.different !== lost; attempt++) {
    report = await compare();
  }
  return report;
}
