import { roleConformance } from "@ropeway/testkit/role-conformance";
import { Dispatcher, HttpDispatcher, MergeQueue } from "../src/index.ts";

roleConformance("Dispatcher", {
  make: (redis) => new Dispatcher(new MergeQueue(redis), async () => {}),
  provoke: async (role, listener, redis) => {
    role.on("delivered", listener);
    await new MergeQueue(redis).push("k", "1");
  },
});

roleConformance("HttpDispatcher", {
  make: (redis) => new HttpDispatcher(new MergeQueue(redis)),
  provoke: async (role, listener, redis) => {
    role.on("dead", listener);
    await new MergeQueue(redis).push("a key without an endpoint", "1");
  },
});
