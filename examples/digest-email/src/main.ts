/**
 * Comments come in one by one; the e-mail about them goes out once, when it has been quiet for a second.
 *
 *   comment --POST--> v3 queue (merge key: event_recipient, update=always, ontime=now+1) --> Redis
 *   Redis --> dispatcher --POST [c1,c2,...]--> mail service (here: prints, and verifies the signature)
 */
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@ropeway/core";
import { encodeService, HttpDispatcher, MergeQueue, verifyWebhook } from "@ropeway/merge";
import { MergeServer } from "@ropeway/portal";

interface Comment {
  readonly to: string;
  readonly event: string;
  readonly from: string;
  readonly text: string;
}

const comments: readonly Comment[] = [
  { to: "ana", event: "picnic", from: "ben", text: "I bring salad" },
  { to: "ana", event: "picnic", from: "cem", text: "Rain, they say" },
  { to: "dot", event: "picnic", from: "ben", text: "I bring salad" },
  { to: "ana", event: "picnic", from: "ben", text: "Then the barn!" },
];

const key = `whsec_${randomBytes(32).toString("base64")}`;
const redis = await connect(process.env.REDIS_URL);
const queue = new MergeQueue(redis, { prefix: `{example:digest:${process.pid}}` });
const service = await new MergeServer(queue, { port: 0, allow: ["loopback"] }).start();
const dispatcher = await new HttpDispatcher(queue, {
  allow: ["loopback"],
  signingKeys: [key],
}).start();

const expected = new Set(comments.map(({ to, event }) => `${event}_${to}`));
let allSent = () => {};
const done = new Promise<void>((resolve) => {
  allSent = resolve;
});

const mailService = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  verifyWebhook(request.headers, body, { keys: [key] });
  const digest = JSON.parse(body.toString("utf8")) as Comment[];
  const [{ to, event } = { to: "?", event: "?" }] = digest;
  const lines = digest.map(({ from, text }) => `  ${from}: ${text}`);
  console.log(
    [`e-mail to ${to}: ${digest.length} new comment(s) on ${event}`, ...lines].join("\n"),
  );
  response.end();
  expected.delete(`${event}_${to}`);
  if (expected.size === 0) allSent();
});
await new Promise<void>((resolve) => mailService.listen(0, "127.0.0.1", resolve));
const mailUrl = `http://127.0.0.1:${(mailService.address() as AddressInfo).port}/digest`;

for (const comment of comments) {
  const quiet = Date.now() / 1_000 + 1;
  const path = `${comment.event}_${comment.to}/POST/${encodeService(mailUrl)}`;
  const answer = await fetch(`${service.url}/v3/queue/${path}?update=always&ontime=${quiet}`, {
    method: "POST",
    body: JSON.stringify(comment),
  });
  if (answer.status !== 202) throw new Error(`the queue answered ${answer.status}`);
}

await done;
await dispatcher.close();
await service.close();
await queue.close();
mailService.closeAllConnections();
mailService.close();
await redis.close();
