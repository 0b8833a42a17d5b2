import { silentLogger } from "@ropeway/core";
import { otherServer, startEtcd } from "@ropeway/testkit";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import { storeConformance } from "./store.conformance.ts";

const newer = otherServer("etcd-3.5");
const versions =
  newer.command === undefined ? [undefined] : [undefined, newer.version as "etcd-3.5"];

for (const version of versions) {
  storeConformance(version ?? "etcd-3.4", async () => {
    const etcd = await startEtcd(version === undefined ? {} : { version });
    return {
      open: () => openEtcdStore({ endpoints: etcd.urls, logger: silentLogger }),
      async restart() {
        await etcd.first.kill9();
        await etcd.first.start();
      },
      async compact(_, revision) {
        await etcd.first.call("/v3/kv/compaction", { revision: String(revision), physical: true });
      },
      close: () => etcd.close(),
    };
  });
}
