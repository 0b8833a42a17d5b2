/**
 * Descriptions that a route's schema cannot express, by method and path. Only two routes need it, because they
 * read and write their bodies themselves: the v3 merge queue, whose path is cut by hand, and the JSON-RPC
 * gateway. openapi-conformance.test.ts checks every response against it.
 */
import type { JsonSchema, Operation } from "./description.ts";

/** Routes with a wildcard, and their paths as they are documented. */
export const WILDCARDS: Readonly<Record<string, string>> = {
  "/v3/queue/{*}": "/v3/queue/{mergeKey}/{method}/{service}",
};

/** What a parameter means, by its name; a description in the route's own schema takes precedence. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  actor: "Only entries of this account.",
  cursor: "The cursor of the previous page; leave it out for the first page.",
  endpoint: "The endpoint's URL.",
  group: "Only jobs of this group.",
  id: "The id.",
  key: "The key, as the list of keys shows it.",
  limit: "The maximum number of items.",
  mergeKey:
    "Items of one merge key, method and URL are delivered together. A key that starts with - is delivered item by item.",
  method: "The method that the endpoint is called with.",
  name: "Only items with this name.",
  ns: "The namespace.",
  minutes: "The number of minutes.",
  queue: "The queue's name.",
  schedule: "The id of the schedule.",
  search: "Only items that contain this string.",
  service: "The service's name; for the merge queue, the endpoint's URL in base64url.",
  state: "Only items in this state.",
  text: "Only items that contain this string.",
  url: "The endpoint's URL.",
};

/** A parameter of a documented path. */
function inPath(name: string): NonNullable<Operation["parameters"]>[number] {
  return { name, in: "path", required: true, schema: { type: "string" } };
}

const v3Path = ["mergeKey", "method", "service"].map(inPath);

const inQuery = (name: string, description: string, schema: JsonSchema) =>
  ({ name, in: "query", required: false, description, schema }) as const;

const inHeader = (name: string, description: string, schema: JsonSchema) =>
  ({ name, in: "header", required: false, description, schema }) as const;

/** How a push wants its batch delivered. */
const v3Headers = [
  inHeader(
    "Idempotency-Key",
    "A repetition with the same key and body stores nothing and gets the first response.",
    { type: "string", examples: ["order-17"] },
  ),
  inHeader("Ropeway-Attempts", "How often delivery is tried before the batch is a dead letter.", {
    ...{ type: "integer", minimum: 1, maximum: 1_000, examples: [5] },
  }),
  inHeader("Ropeway-Timeout-Ms", "How long one attempt may take, in milliseconds.", {
    ...{ type: "integer", minimum: 1, maximum: 3_600_000, examples: [3_000] },
  }),
  inHeader("Ropeway-Callback", "A URL that gets the result when the batch is delivered.", {
    ...{ type: "string", format: "uri" },
  }),
  inHeader(
    "Ropeway-Failure-Callback",
    "A URL that gets the reason when the batch becomes a dead letter.",
    { type: "string", format: "uri" },
  ),
  inHeader(
    "Ropeway-Forward-NAME",
    "Sent along with the delivery as the header NAME. May be repeated with other names, at most 32.",
    { type: "string", examples: ["tenant-7"] },
  ),
];

const pushed: JsonSchema = {
  type: "object",
  required: ["id", "key", "ontime", "items"],
  properties: {
    id: { type: "string", description: "The item's id." },
    key: { type: "string", description: "The merge key." },
    ontime: { type: "number", description: "When the batch fires, in seconds since the epoch." },
    items: { type: "integer", description: "The number of items in the batch." },
  },
};

const unixSeconds = (description: string): JsonSchema => ({
  type: "number",
  description: `${description}, in seconds since the epoch.`,
});

const peeked: JsonSchema = {
  type: "object",
  required: ["key", "method", "service", "items", "batches"],
  properties: {
    key: { type: "string", description: "The merge key." },
    method: { type: "string", description: "The method that the endpoint is called with." },
    service: { type: "string", description: "The endpoint's URL." },
    items: { type: "integer", description: "The number of items in these batches." },
    batches: {
      type: "array",
      items: {
        type: "object",
        required: ["items", "state", "paused", "attempts", "oldest"],
        properties: {
          ontime: unixSeconds("When it fires"),
          items: { type: "integer" },
          state: { type: "string" },
          paused: { type: "boolean" },
          attempts: { type: "integer", description: "How often its delivery was tried." },
          error: { type: "string", description: "Why the last attempt failed." },
          oldest: {
            type: "array",
            items: {
              type: "object",
              required: ["id", "pushedAt", "contentType", "size", "body"],
              properties: {
                id: { type: "string" },
                pushedAt: unixSeconds("When it was pushed"),
                contentType: { type: "string" },
                size: { type: "integer", description: "In bytes." },
                body: { type: "string" },
              },
            },
          },
        },
      },
    },
    cursor: { type: "string", description: "Asks for the next page; left out on the last one." },
  },
};

const jsonRpc = (
  required: readonly string[],
  properties: Record<string, JsonSchema>,
): JsonSchema => ({
  type: "object",
  required: ["jsonrpc", ...required],
  properties: { jsonrpc: { type: "string", const: "2.0" }, ...properties },
});

const rpcRequest = jsonRpc(["method"], {
  method: { type: "string", examples: ["add"] },
  params: { description: "An array or an object.", examples: [[1, 2]] },
  id: { description: "Leave it out for a notification.", examples: [1] },
});

const rpcResponse = jsonRpc(["id"], {
  id: { description: "The id of the request.", examples: [1] },
  result: { description: "Only if the call succeeded.", examples: [3] },
  error: {
    type: "object",
    description: "Only if the call failed.",
    required: ["code", "message"],
    properties: { code: { type: "integer" }, message: { type: "string" }, data: {} },
  },
});

/** JSON-RPC's batches. */
const oneOrMany = (one: JsonSchema, example: object): JsonSchema => ({
  anyOf: [one, { type: "array", items: one }],
  examples: [{ jsonrpc: "2.0", id: 1, ...example }],
});

const json = (schema: JsonSchema) => ({ "application/json": { schema } });
const text = (type: string) => ({ [type]: { schema: { type: "string" } } });

/** What is added to an operation. */
export const SUPPLEMENTS: Readonly<Record<string, Partial<Operation>>> = {
  "post /v3/queue/{*}": {
    parameters: [
      ...v3Path,
      inQuery("ontime", "When to fire, in seconds since the epoch. Defaults to now.", {
        type: "number",
        examples: [1_767_603_600],
      }),
      inQuery("update", "Whether the time of a batch that waits is moved.", {
        type: "string",
        enum: ["once", "always"],
      }),
      inQuery(
        "maxwait",
        "The longest time, in seconds, that update=always can postpone the batch.",
        {
          type: "number",
          examples: [3_600],
        },
      ),
      ...v3Headers,
    ],
    requestBody: { required: true, content: json({ examples: [{ order: 17 }] }) },
    responses: { "202": { description: "Stored.", content: json(pushed) } },
  },
  "delete /v3/queue/{*}": {
    parameters: v3Path,
    responses: {
      "200": {
        description: "The number of items that were deleted.",
        content: json({
          type: "object",
          required: ["deleted"],
          properties: {
            deleted: { type: "integer" },
            sending: { type: "integer", description: "Items that were on their way already." },
          },
        }),
      },
    },
  },
  "get /v3/queue/{*}": {
    parameters: [
      ...v3Path,
      inQuery("cursor", "The cursor of the previous page.", { type: "string" }),
    ],
    responses: {
      "200": {
        description: "What is queued, a page of at most 1 MiB of bodies.",
        content: json(peeked),
      },
    },
  },
  "post /rpc/{ns}/{service}": {
    requestBody: {
      required: true,
      content: json(oneOrMany(rpcRequest, { method: "add", params: [1, 2] })),
    },
    responses: {
      "200": {
        description: "The response, or an array of responses for a batch.",
        content: { ...json(oneOrMany(rpcResponse, { result: 3 })), ...text("text/event-stream") },
      },
      "204": { description: "The request was a notification." },
    },
  },
};
