import { expect, test } from "vitest";
import { StreamCall } from "../src/stream/stream-call.ts";

test("a stream that its worker has opened is no longer a matter of its session", async () => {
  const posted: string[] = [];
  const released: string[] = [];
  const exchange = {
    options: { timeoutMs: 10_000, window: 4, streamIdleMs: 30_000, maxMessageBytes: 1e6 },
    replyList: "/api/t/reply/c",
    dialect: { encodeCall: () => "{}" },
    wheel: { set: () => {}, clear: () => {} },
    usesReplyList: () => true,
    nextId: () => "c.1",
    deadlineIn: () => 0,
    register: () => {},
    expectReply: () => {},
    forget: () => {},
    post: (_list: string, text: string) => void posted.push(text),
  };
  const call = new StreamCall(
    exchange as never,
    {
      route: { name: "demo.count", service: "demo", method: "count", list: "l", record: () => {} },
      params: [],
      options: {},
      whenDown: "queue",
      placement: {
        mark: undefined,
        place: async () => {},
        release: ({ id }: { id: string }) => void released.push(id),
      },
      span: undefined,
    } as never,
  );
  const items = call.start();
  expect(released).toEqual([]);
  const ctl = "/api/t/ctl/w";
  call.receive({ last: 0, ctl, upto: 4 }, 1);
  expect(released).toEqual(["c.1"]);
  call.receive({ last: 0, ctl, upto: 4 }, 2); // a sign of life, answered by another
  expect(posted).toHaveLength(1);
  call.receive({ seq: 1, items: ["a"], end: true }, 3);
  expect(await items.next()).toEqual({ value: "a", done: false });
  expect(await items.next()).toEqual({ value: undefined, done: true });
});
