import { deferred } from "@ropeway/core/internal";
import { expect, test } from "vitest";
import type { Exchange } from "../src/client/exchange.ts";
import { type Outgoing, RequestPlacement } from "../src/client/placement.ts";
import type { Route } from "../src/client/route.ts";

test.each([true, false])(
  "a call that is cancelled while it is being pushed is withdrawn afterwards: %j",
  async (cancelled) => {
    const pushed = deferred<void>();
    const withdrawn: Outgoing[] = [];
    const exchange = {
      deliver: () => pushed.promise,
      withdrawals: { cancel: async (message: Outgoing) => void withdrawn.push(message) },
    };
    const message: Outgoing = {
      id: "1",
      route: {} as Route,
      timeoutMs: 1_000,
      until: 1_000,
      text: "{}",
      list: "list",
      wanted: true,
      whenDown: "queue",
    };
    const placed = new RequestPlacement(exchange as unknown as Exchange).place(message);
    message.wanted = !cancelled;
    pushed.resolve();
    await placed;
    expect(withdrawn).toEqual(cancelled ? [message] : []);
  },
);
