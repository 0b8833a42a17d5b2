import { PassThrough } from "node:stream";
import { pino } from "pino";
import { expect, test } from "vitest";
import { fastifyLogger } from "../src/http/request-logger.ts";
import { Stage } from "./stage.fixture.ts";

test("a pino logger fits, and every line of a request carries its id", async () => {
  const lines: Record<string, unknown>[] = [];
  const output = new PassThrough().on("data", (chunk) => {
    for (const line of String(chunk).trim().split("\n")) lines.push(JSON.parse(line));
  });
  {
    await using stage = await Stage.open({ logger: pino({}, output) });
    await stage.ask("/healthz", { headers: { "x-request-id": "my-request" } });
  }
  const line = lines.find(({ requestId }) => requestId === "my-request");
  expect(line).toMatchObject({ level: 30, msg: "request", route: "/healthz", status: 200 });
});

test("children add their fields, in whatever way a line is written", () => {
  const lines: unknown[] = [];
  const note = (fields: object, message: string) => lines.push([message, fields]);
  const logger = fastifyLogger({ debug: note, info: note, warn: note, error: note }, { a: 1 });
  logger.child({ b: 2 }).warn({ c: 3 }, "both");
  logger.error("text only");
  logger.fatal({ d: 4 });
  logger.trace("never");
  expect(lines).toEqual([
    ["both", { a: 1, b: 2, c: 3 }],
    ["text only", { a: 1 }],
    ["", { a: 1, d: 4 }],
  ]);
});
