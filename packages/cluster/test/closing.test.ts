/** Closing while the store does not respond. */
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { ClusterNode } from "../src/nodes/cluster-node.ts";
import { scriptedRunner } from "../src/runners/scripted-runner.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store } from "../src/store/store.ts";
import { redisStage } from "./stage.fixture.ts";

const CALLS = new Set(["get", "put", "delete", "range", "txn", "grant", "keepAlive", "revoke"]);

/** The same store, whose calls wait from hang() to release(). */
function hangingStore(store: Store): { store: Store; hang(): void; release(): void } {
  let gate = deferred<void>();
  gate.resolve();
  const hanging = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const call = value.bind(target);
      if (!CALLS.has(String(name))) return call;
      return async (...args: unknown[]) => {
        await gate.promise;
        return call(...args);
      };
    },
  });
  return {
    store: hanging,
    hang: () => {
      gate = deferred<void>();
    },
    release: () => gate.resolve(),
  };
}

it("a node and an inspector close although the store does not respond, and are not back when it does", async () => {
  const stage = await redisStage();
  const store = await stage.open();
  const hanging = hangingStore(store);
  const options = { address: "", leaseMs: 1_000 };
  const node = await new ClusterNode(hanging.store, {
    ...options,
    id: "node_a",
    runners: [scriptedRunner()],
    secrets: new SecretBox(undefined),
  }).start();
  const inspector = await new Cluster(hanging.store)
    .inspector({ ...options, id: "portal_a", everyMs: 100 })
    .start();
  const lost = new Promise<void>((resolve) => node.on("lost", resolve));
  hanging.hang();
  await lost; // the node tries to register again
  await Promise.all([node.close(), inspector.close()]);
  hanging.release();
  await eventually(async () => {
    expect(await store.get(keys.node("redissyncer", "node_a"))).toBeUndefined();
    expect(await store.get(keys.node("portal", "portal_a"))).toBeUndefined();
  });
  await stage.close();
}, 60_000);
