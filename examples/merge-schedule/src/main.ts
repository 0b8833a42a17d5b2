/**
 * A recurring push: two dispatchers share one schedule, and each run reaches the endpoint once.
 *
 *   schedule (in Redis) --due--> the first of two dispatchers --POST [item]--> report service (here: prints)
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect } from "@ropeway/core";
import { AddressGuard, HttpDispatcher, MergeQueue, Schedules } from "@ropeway/merge";

const RUNS = 3;
const redis = await connect(process.env.REDIS_URL);
const queue = new MergeQueue(redis, { prefix: `{example:schedule:${process.pid}}` });

let served = 0;
let allServed = () => {};
const done = new Promise<void>((resolve) => {
  allServed = resolve;
});
const reports = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const [item = ""] = String(request.headers["webhook-items"]).split("@"); // ID@DUE
  served += 1;
  console.log(`run ${served} of ${item}: ${Buffer.concat(chunks)}`);
  response.end();
  if (served === RUNS) allServed();
});
await new Promise<void>((resolve) => reports.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(reports.address() as AddressInfo).port}/report`;

const allow = ["loopback"];
const dispatchers = [new HttpDispatcher(queue, { allow }), new HttpDispatcher(queue, { allow })];
await Promise.all(dispatchers.map((dispatcher) => dispatcher.start()));

const schedules = new Schedules(queue, new AddressGuard(allow));
await schedules.set("report", {
  destination: { mergeKey: "-report", url }, // "-": one request per run
  body: JSON.stringify({ kind: "weekly" }),
  everyMs: 1_000, // in production: cron: "0 9 * * 1", timeZone: "Europe/Berlin"
  limit: RUNS,
});

await done;
const { state, runs } = await schedules.get("report");
console.log(`the schedule has ${state} after ${runs} runs`);
await schedules.remove("report");
await Promise.all(dispatchers.map((dispatcher) => dispatcher.close()));
await queue.close();
reports.closeAllConnections();
reports.close();
await redis.close();
