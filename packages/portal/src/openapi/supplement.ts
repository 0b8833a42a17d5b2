/**
 * What the schemas of routes cannot say: paths that are cut by hand, bodies that are not checked by a
 * schema, and responses that are no JSON. By method and path of the route.
 */
import type { JsonSchema, Operation } from "./description.ts";

/** Routes with a wildcard, and their paths as they are documented. */
export const WILDCARDS: Readonly<Record<string, string>> = {
  "/v3/queue/{*}": "/v3/queue/{mergeKey}/{method}/{service}",
};

/** What a parameter means, by its name; a description in the route's own schema is stronger. */
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
  schedule: "The id of the recurring job.",
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

const pushed: JsonSchema = {
  type: "object",
  properties: {
    id: { type: "string", description: "The item's id." },
    key: { type: "string", description: "The merge key." },
    ontime: { type: "number", description: "When the batch fires, in seconds since the epoch." },
    items: { type: "integer", description: "The number of items in the batch." },
  },
};

const jsonRpc = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: "object",
  properties: { jsonrpc: { type: "string", const: "2.0" }, ...properties },
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
    ],
    requestBody: { required: true, content: json({ examples: [{ order: 17 }] }) },
    responses: { "202": { description: "Stored.", content: json(pushed) } },
  },
  "delete /v3/queue/{*}": {
    parameters: v3Path,
    responses: {
      "200": {
        description: "The number of items that were deleted.",
        content: json({ type: "object", properties: { deleted: { type: "integer" } } }),
      },
    },
  },
  "get /v3/queue/{*}": {
    parameters: v3Path,
    responses: {
      "200": {
        description: "The items that are queued.",
        content: json({
          type: "object",
          properties: { key: { type: "string" }, items: { type: "integer" } },
        }),
      },
    },
  },
  "post /rpc/{ns}/{service}": {
    requestBody: {
      required: true,
      content: json(
        jsonRpc({
          method: { type: "string", examples: ["add"] },
          params: { description: "An array or an object.", examples: [[1, 2]] },
          id: { description: "Leave it out for a notification.", examples: [1] },
        }),
      ),
    },
    responses: {
      "200": {
        description: "The response, or an array of responses for a batch.",
        content: {
          ...json(jsonRpc({ id: { examples: [1] }, result: { examples: [3] } })),
          ...text("text/event-stream"),
        },
      },
      "204": { description: "The request was a notification." },
    },
  },
  "get /api/jobs/queues/{queue}/events": {
    responses: {
      "200": { description: "Events, as they happen.", content: text("text/event-stream") },
    },
  },
  "get /api/merge/events": {
    responses: {
      "200": { description: "Events, as they happen.", content: text("text/event-stream") },
    },
  },
  "get /metrics": {
    responses: { "200": { description: "Metrics.", content: text("text/plain") } },
  },
  "get /docs": { responses: { "200": { description: "A page.", content: text("text/html") } } },
  "get /": { responses: { "200": { description: "A page.", content: text("text/html") } } },
};
