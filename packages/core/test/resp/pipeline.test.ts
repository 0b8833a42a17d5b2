import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { eventually } from "@ropeway/testkit";
import { afterEach, beforeEach, expect, test } from "vitest";
import { NoReplyError, NotSentError, Pipeline } from "../../src/resp/pipeline.ts";
import { ProtocolError, ReplyError } from "../../src/resp/reply-decoder.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: (options?: { readonly type: "minor" }) => void = runInNewContext("gc");

let server: ReturnType<typeof createServer>;
let peer: Socket;
let pipelineSocket: Socket;
let pipeline: Pipeline;

beforeEach(async () => {
  server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection");
  pipelineSocket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  pipeline = new Pipeline(pipelineSocket);
  [peer] = await accepted;
  peer.on("error", () => {});
});

afterEach(async () => {
  pipeline.destroy(new Error("the test ended"));
  peer.destroy();
  server.close();
  await once(server, "close");
});

test("replies belong to the commands in their order, and an error to its own", async () => {
  const replies = Promise.allSettled([
    pipeline.send(["A"], false),
    pipeline.send(["B"], false),
    pipeline.send(["C"], true),
  ]);
  await once(peer, "data");
  peer.write("+a\r\n-ERR b\r\n$1\r\nc\r\n");
  expect(await replies).toEqual([
    { status: "fulfilled", value: "a" },
    { status: "rejected", reason: new ReplyError("ERR b") },
    { status: "fulfilled", value: Buffer.from("c") },
  ]);
});

test("a command that was written has an unknown outcome after a loss, one that was not was never sent", async () => {
  const written = pipeline.send(["INCR", "k"], false);
  await once(peer, "data");
  const unwritten = pipeline.send(["INCR", "k"], false);
  pipeline.destroy(new Error("lost"));
  await expect(written).rejects.toBeInstanceOf(NoReplyError);
  await expect(unwritten).rejects.toBeInstanceOf(NotSentError);
  await expect(pipeline.send(["INCR", "k"], false)).rejects.toBeInstanceOf(NotSentError);
  expect(await pipeline.died).toEqual(new Error("lost"));
});

test("a peer that does not speak RESP ends the pipeline", async () => {
  const refused = pipeline.send(["PING"], false);
  await once(peer, "data");
  peer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
  await expect(refused).rejects.toMatchObject({ cause: expect.any(ProtocolError) });
  expect(pipeline.alive).toBe(false);
});

test("a reply that belongs to no command ends the pipeline", async () => {
  peer.write("-ERR max number of clients reached\r\n");
  expect(await pipeline.died).toMatchObject({
    message: expect.stringContaining("ERR max number of clients reached"),
  });
});

test("a reply to a command that was not written yet ends the pipeline", async () => {
  peer.write("+x\r\n");
  const refused = await new Promise<unknown>((resolve) => {
    const send = () => void pipeline.send(["PING"], false).catch(resolve);
    pipelineSocket.prependOnceListener("data", send);
  });
  expect(refused).toBeInstanceOf(NotSentError);
});

test("under load, replies do not stay in memory until all commands have theirs", async () => {
  const size = 100_000;
  const reply = Buffer.concat([
    Buffer.from(`$${size}\r\n`),
    Buffer.alloc(size),
    Buffer.from("\r\n"),
  ]);
  const send = () => pipeline.send(["GET", "k"], true).then(() => {});
  peer.on("data", (bytes) => {
    for (const _ of String(bytes).matchAll(/GET/g)) peer.write(reply);
  });
  await send();
  collectGarbage({ type: "minor" });
  const before = process.memoryUsage().arrayBuffers;
  // There is always another command without a reply.
  let last = send();
  collectGarbage(); // the oldest command is now in the old generation
  for (let i = 0; i < 200; i++) {
    const next = send();
    await last;
    last = next;
    collectGarbage({ type: "minor" });
  }
  await last;
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(5_000_000);
});

test("a half-closed peer ends the pipeline", async () => {
  peer.end();
  expect(await pipeline.died).toMatchObject({ message: "the server closed the connection" });
});

test("drained() refuses new commands and waits for the replies of the others", async () => {
  const reply = pipeline.send(["PING"], false);
  const drained = pipeline.drained();
  await expect(pipeline.send(["PING"], false)).rejects.toBeInstanceOf(NotSentError);
  await once(peer, "data");
  peer.write("+PONG\r\n");
  await drained;
  expect(await reply).toBe("PONG");
});

test("messages go to the listener of their channel, and replies to their commands", async () => {
  const heard: string[] = [];
  const subscribed = pipeline.subscribe("c", (message) => heard.push(String(message)));
  await once(peer, "data");
  const ping = pipeline.send(["PING"], false);
  const message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nm1\r\n";
  peer.write(`*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n${message}`);
  await subscribed;
  peer.write(`*2\r\n$4\r\npong\r\n$0\r\n\r\n${message}`);
  expect(await ping).toEqual([Buffer.from("pong"), Buffer.alloc(0)]);
  await eventually(() => expect(heard).toEqual(["m1", "m1"]));
});

test("a channel that is refused has no listener", async () => {
  const heard: string[] = [];
  const subscribed = pipeline.subscribe("c", (message) => heard.push(String(message)));
  await once(peer, "data");
  const ping = pipeline.send(["PING"], false);
  peer.write("-NOPERM no channel\r\n");
  await expect(subscribed).rejects.toBeInstanceOf(ReplyError);
  peer.write("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nm1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n");
  await ping;
  expect(heard).toEqual([]);
});

test("a channel that was left has no listener, also while messages still arrive", async () => {
  const heard: string[] = [];
  const subscribed = pipeline.subscribe("c", (message) => heard.push(String(message)));
  const left = pipeline.unsubscribe("c");
  await once(peer, "data");
  peer.write("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
  peer.write("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nlate\r\n");
  peer.write("*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
  await Promise.all([subscribed, left]);
  expect(heard).toEqual([]);
});

test("a second subscription that is refused leaves the first one as it was", async () => {
  const heard: string[] = [];
  const both = Promise.allSettled([
    pipeline.subscribe("c", (message) => heard.push(`first ${message}`)),
    pipeline.subscribe("c", (message) => heard.push(`second ${message}`)),
  ]);
  await once(peer, "data");
  peer.write("*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n-NOPERM no longer\r\n");
  expect((await both).map((each) => each.status)).toEqual(["fulfilled", "rejected"]);
  peer.write("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
  await eventually(() => expect(heard).toEqual(["first m"]));
});

test("a listener that throws does not keep the messages and replies after it from anyone", async () => {
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  const thrown = once(process, "uncaughtException");
  const heard: string[] = [];
  const subscribed = pipeline.subscribe("c", (message) => {
    heard.push(String(message));
    throw new Error("a listener");
  });
  const ping = pipeline.send(["PING"], false);
  await once(peer, "data");
  const message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
  peer.write(`*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n${message}*2\r\n$4\r\npong\r\n$0\r\n\r\n`);
  try {
    await Promise.all([subscribed, ping]);
    expect(await thrown).toMatchObject([{ message: "a listener" }, expect.anything()]);
  } finally {
    for (const listener of others) process.on("uncaughtException", listener);
  }
  expect(heard).toEqual(["m"]);
});

test("drained() ends when the socket is lost", async () => {
  const lost = expect(pipeline.send(["PING"], false)).rejects.toBeInstanceOf(NoReplyError);
  await once(peer, "data");
  const drained = pipeline.drained();
  peer.destroy();
  await Promise.all([drained, lost]);
});

test("a half-closed peer that does not read ends the pipeline, too", async () => {
  peer.pause();
  const lost = pipeline.send(["SET", "k", "x".repeat(50_000_000)], false);
  peer.end();
  await expect(lost).rejects.toBeInstanceOf(NoReplyError);
});
