// The description of the API, judged by others: two validators, and a linter with its recommended rules.
import { compileErrors, validate } from "@readme/openapi-parser";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { Cluster, openRedisStore } from "@ropeway/cluster";
import { MergeQueue } from "@ropeway/merge";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, expect, test } from "vitest";
import {
  alertsPart,
  createPortal,
  jobsPart,
  kitPart,
  mergePart,
  nodesPart,
  rpcPart,
  tasksPart,
} from "../src/index.ts";
import type { ApiDescription, Operation } from "../src/openapi/description.ts";

const { redis } = await redisForFile();
const cluster = new Cluster(openRedisStore(redis));
const parts = [
  mergePart(new MergeQueue(redis, { prefix: "{q}" })),
  jobsPart(redis),
  rpcPart(redis),
  tasksPart(cluster),
  nodesPart(cluster),
  alertsPart(cluster),
  kitPart(redis),
];
const portal = createPortal(redis, { parts });
const { url } = await portal.start();
afterAll(() => portal.close());

const text = await (await fetch(`${url}/openapi.json`)).text();
const description = (): ApiDescription => JSON.parse(text) as ApiDescription;
const operations: (readonly [string, Operation])[] = Object.entries(description().paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method} ${path}`, operation] as const),
);

test("two validators find no error", async () => {
  const first = await new Validator().validate(JSON.parse(text));
  expect(first).toMatchObject({ valid: true });
  const second = await validate(description() as never);
  expect(second.valid ? "" : compileErrors(second)).toBe("");
});

test("a linter finds nothing to warn of, examples included", async () => {
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: text, absoluteRef: "openapi.json", config });
  const told = problems.map(({ ruleId, message, location: [place] }) => {
    return `${ruleId} ${(place as { pointer?: string } | undefined)?.pointer}: ${message}`;
  });
  expect(told).toEqual([]);
});

test.each(operations)("%s says everything a caller needs", (name, operation) => {
  expect(operation.operationId).toMatch(/^[a-z][A-Za-z0-9]+$/);
  expect(operation.summary).toMatch(/\S/);
  for (const { name: parameter, description: meaning, example } of operation.parameters ?? []) {
    expect(meaning, parameter).toMatch(/\S/);
    expect(example, parameter).toBeDefined();
  }
  for (const { example } of Object.values(operation.requestBody?.content ?? {})) {
    expect(example).toBeDefined();
  }
  const good = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
  expect(good.length).toBeGreaterThan(0);
  for (const [status, { content, description: meaning }] of good) {
    expect(meaning).toMatch(/\S/);
    if (status === "204") continue;
    for (const [type, { schema, example }] of Object.entries(content ?? { none: {} })) {
      expect(schema, `${name} ${type}`).toBeDefined();
      if (type.endsWith("json")) expect(example).toBeDefined();
    }
  }
});

test("no two operations have the same id, and a v3 push is a 202", () => {
  const ids = operations.map(([, { operationId }]) => operationId);
  expect(new Set(ids).size).toBe(ids.length);
  const push = operations.find(([name]) => name.startsWith("post /v3/queue/{mergeKey}"));
  expect(Object.keys(push?.[1].responses ?? {})).toEqual(["202", "4XX", "5XX"]);
});
