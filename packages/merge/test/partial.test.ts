// Responses with 207, which report on a part of a batch.
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { HttpDispatcher, Inspector } from "../src/index.ts";
import { at, HTTP, queuesForFile } from "./queues-for-file.ts";
import { Receiver } from "./receiver.ts";

const { fresh } = await queuesForFile();

const lists = [["1"], [7], [-1], [1.5], [null], [{}], ["no-such-id"], [0, 99]];
test.each(lists.map((failed) => JSON.stringify(failed)))(
  "a 207 whose list is %s names something else than items, so all are sent again",
  async (failed) => {
    await using receiver = await Receiver.start();
    receiver.answer = (_, response) => {
      response.statusCode = receiver.requests.length === 1 ? 207 : 200;
      response.end(`{"failed":${failed}}`);
    };
    const queue = fresh();
    const reasons: string[] = [];
    const items = ["1", "2", "3"].map((body) => ({ body }));
    await queue.pushAll(at("k", receiver.url()), items);
    await using dispatcher = new HttpDispatcher(queue, HTTP);
    dispatcher.on("failed", (_, { reason }) => reasons.push(reason));
    await dispatcher.start();
    const all = [1, 2, 3];
    await eventually(() => expect(receiver.bodies()).toEqual([all, all]));
    await eventually(async () => expect((await new Inspector(queue).stats()).keys).toBe(0));
    const [name] = JSON.parse(failed).slice(-1);
    expect(reasons).toEqual([
      `the endpoint responded with 207, but no item of the batch is ${JSON.stringify(name)}`,
    ]);
  },
);
