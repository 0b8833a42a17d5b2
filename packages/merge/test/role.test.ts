import { roleConformance } from "@ropeway/testkit/role-conformance";
import {
  AddressGuard,
  Dispatcher,
  HttpDispatcher,
  MergeQueue,
  Scheduler,
  Schedules,
} from "../src/index.ts";

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

roleConformance("Scheduler", {
  make: (redis) => new Scheduler(new MergeQueue(redis)),
  provoke: async (role, listener, redis) => {
    role.on("ran", listener);
    await new Schedules(new MergeQueue(redis), new AddressGuard()).set("now", {
      destination: { mergeKey: "k", url: "https://example.com/" },
      body: "1",
      everyMs: 3_600_000,
      immediately: true,
    });
  },
});
