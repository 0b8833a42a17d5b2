import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import {
  type EventStream,
  type EventStreamOptions,
  needs,
  type PortalPart,
  serveEvents,
} from "../src/index.ts";
import { encode } from "../src/sse.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

type Produce = (stream: EventStream) => Promise<void>;

let produce: Produce;
let options: EventStreamOptions;
let stage: Stage;

const part: PortalPart = {
  name: "events",
  about: { en: "", zh: "" },
  routes(app) {
    app.get("/events", { config: needs("public") }, (_request, reply) =>
      serveEvents(reply, (stream) => produce(stream), options),
    );
  },
};

let leave: AbortController;

beforeAll(async () => {
  stage = await Stage.open({ parts: [part], maxStreams: 2 });
});

beforeEach(() => {
  options = {};
  leave = new AbortController();
});

// The next test finds no stream of this one.
afterEach(async () => {
  leave.abort();
  await eventually(async () => expect(await openStreams()).toBe(0));
});

afterAll(() => stage.close());

async function openStreams(): Promise<number> {
  const text = await (await stage.ask("/metrics")).text();
  return Number(/^ropeway_event_streams (\d+)$/m.exec(text)?.[1]);
}

const forever: Produce = (stream) => once(stream.signal, "abort").then(() => undefined);

/** What was received so far, growing. */
async function read(from: Stage = stage): Promise<{ text: string; ended: boolean }> {
  const answer = await fetch(`${from.url}/events`, { signal: leave.signal });
  const received = { text: "", ended: false };
  void (async () => {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of answer.body ?? []) {
        received.text += decoder.decode(chunk as Uint8Array, { stream: true });
      }
    } finally {
      received.ended = true;
    }
  })().catch(() => undefined);
  return received;
}

test("events arrive as they are sent, with the headers that keep proxies from holding them back", async () => {
  const next = deferred<void>();
  produce = async (stream) => {
    await stream.send({ id: "1", event: "change", data: { state: "running" } });
    await next.promise;
    await stream.send({ id: "2", data: "two\nlines" });
  };
  const answer = await stage.ask("/events");
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("x-accel-buffering")).toBe("no");
  expect(answer.headers.get("x-request-id")).not.toBeNull();
  next.resolve();
  expect(await answer.text()).toBe(
    'retry: 2000\n\nevent: change\nid: 1\ndata: {"state":"running"}\n\nid: 2\ndata: two\ndata: lines\n\n',
  );
});

test("a client that comes back says what it has seen", async () => {
  const seen: (string | undefined)[] = [];
  produce = async (stream) => void seen.push(stream.lastEventId);
  await (await stage.ask("/events", { headers: { "last-event-id": "41-7" } })).text();
  await (await stage.ask("/events")).text();
  expect(seen).toEqual(["41-7", undefined]);
});

test("silence is filled with comments", async () => {
  options = { heartbeatMs: 10 };
  produce = forever;
  const received = await read();
  await eventually(() => expect(received.text).toMatch(/(:\n\n){3}/));
});

test("a client that goes away ends its producer", async () => {
  const gone = deferred<unknown>();
  produce = async (stream) => {
    await forever(stream);
    gone.resolve(await stream.send({ data: 1 }).catch((error) => error));
  };
  await read();
  leave.abort();
  expect(await gone.promise).toMatchObject({ code: "ABORTED" });
});

test("closing the portal ends every stream at once and in good order", async () => {
  await using own = await Stage.open({ parts: [part] });
  produce = forever;
  const streams = [await read(own), await read(own)];
  await own.portal.close();
  await eventually(() => expect(streams.every(({ ended }) => ended)).toBe(true));
  expect(streams[0]?.text).toBe("retry: 2000\n\n");
});

test("there is a bound on how many streams are open", async () => {
  produce = forever;
  await Promise.all([read(), read()]);
  const refused = await stage.ask("/events");
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await problemOf(refused)).toMatchObject({ status: 503, code: "OVERLOADED" });
  expect(await openStreams()).toBe(2);
});

test("an old stream ends, so that its client shows again who it is", async () => {
  options = { maxAgeMs: 20, retryMs: 5 };
  produce = forever;
  const answer = await stage.ask("/events");
  expect(await answer.text()).toBe("retry: 5\n\n");
});

test("a producer that fails ends its stream only", async () => {
  produce = async () => {
    throw new Error("secret");
  };
  expect(await (await stage.ask("/events")).text()).toBe("retry: 2000\n\n");
});

/** Connects, asks, and reads nothing. */
async function deafClient(): Promise<Socket> {
  const { hostname, port } = new URL(stage.url);
  const socket = connectTcp(Number(port), hostname);
  socket.on("error", () => undefined);
  await once(socket, "connect");
  socket.pause();
  socket.write("GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n");
  return socket;
}

const BIG = "x".repeat(100_000);

test("send() waits for a client that reads slowly, and gives up one that never reads", async () => {
  options = { stallMs: 100 };
  const outcome = deferred<{ sent: number; error: unknown; aborted: boolean }>();
  produce = async (stream) => {
    let sent = 0;
    try {
      for (;;) {
        await stream.send({ data: BIG });
        sent++;
      }
    } catch (error) {
      outcome.resolve({ sent, error, aborted: stream.signal.aborted });
    }
  };
  const socket = await deafClient();
  const { sent, error, aborted } = await outcome.promise;
  expect(error).toMatchObject({ code: "TIMEOUT" });
  expect(aborted).toBe(true);
  expect(sent).toBeLessThan(200); // what the kernel's buffers took, not gigabytes
  socket.destroy();
});

test("an event that is larger than the buffer reaches a client that reads", async () => {
  const data = "y".repeat(3_000_000);
  produce = async (stream) => {
    for (let i = 0; i < 3; i++) await stream.send({ data });
  };
  const text = await (await stage.ask("/events")).text();
  expect(text.split(data)).toHaveLength(4);
});

test("a producer that does not wait cannot fill the memory", async () => {
  const failed = deferred<unknown>();
  produce = async (stream) => {
    const sending = Array.from({ length: 200 }, () => stream.send({ data: BIG }));
    failed.resolve(
      (await Promise.allSettled(sending)).filter(({ status }) => status === "rejected"),
    );
  };
  const socket = await deafClient();
  const rejected = (await failed.promise) as PromiseRejectedResult[];
  expect(rejected.length).toBeGreaterThan(180);
  expect(rejected.map(({ reason }) => reason.code)).toContain("OVERLOADED");
  socket.destroy();
});

test("an event's fields are one line each, its data any number", () => {
  expect(encode({ data: "a\r\nb\rc\nd" })).toBe("data: a\ndata: b\ndata: c\ndata: d\n\n");
  expect(encode({ data: undefined })).toBe("data: null\n\n");
  for (const bad of ["a\nb", "a\rb", "a\0b"]) {
    expect(() => encode({ id: bad, data: 1 })).toThrow("must be one line");
    expect(() => encode({ event: bad, data: 1 })).toThrow("must be one line");
  }
});

test("HEAD answers with the headers and ends", async () => {
  produce = forever;
  const answer = await stage.ask("/events", { method: "HEAD" });
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  expect(await openStreams()).toBe(0);
});

test("streams that wait behind another one on their connection end with it", async () => {
  produce = forever;
  const { hostname, port } = new URL(stage.url);
  const socket = connectTcp(Number(port), hostname);
  socket.write("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2));
  await eventually(async () => expect(await openStreams()).toBe(2));
  socket.destroy();
  await eventually(async () => expect(await openStreams()).toBe(0));
});
