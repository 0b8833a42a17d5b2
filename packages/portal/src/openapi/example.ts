/** Examples for the description, made from the schemas, so that they cannot disagree with them. */
import type { JsonSchema } from "./description.ts";

/** Values that say more than their type does, by the name of a property or parameter. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  attempts: 3,
  body: '{"order":17}',
  code: "NOT_FOUND",
  contentType: "application/json",
  current: "correct horse battery",
  cursor: "0",
  data: { to: "ann@example.com" },
  detail: 'queue "mail" not found',
  error: "connect ECONNREFUSED",
  group: "ann",
  host: "web-1",
  id: "4711",
  instance: "/api/jobs/queues/mail",
  jsonrpc: "2.0",
  key: "orders",
  limit: 50,
  mergeKey: "orders",
  message: "no such mailbox",
  method: "POST",
  name: "welcome",
  namespaces: ["shop"],
  next: "another horse battery",
  node: "web-1",
  ns: "shop",
  password: "correct horse battery",
  permissions: ["session:view", "job:view"],
  pid: 4711,
  prefix: "ropeway",
  minutes: 60,
  queue: "mail",
  schedule: "nightly",
  reason: "no longer needed",
  requestId: "7c3f0f0e-3b0a-4d7e-9a63-6c5f6d0f7f11",
  role: "admin",
  search: "orders",
  service: "demo",
  status: 404,
  text: "ann",
  title: "Not found",
  token: `rws_${"A".repeat(43)}`,
  type: "/docs#NOT_FOUND",
  url: "https://example.com/hook",
  username: "admin",
  version: "0.1.0",
  via: "cookie",
};

const BY_FORMAT: Readonly<Record<string, string>> = {
  "date-time": "2026-01-05T09:00:00.000Z",
  password: "correct horse battery",
  uri: "https://example.com/hook",
};

/** Candidates for a string with a pattern: cursors, numbers, names. */
const PATTERNED = ["0", "0.0", "0-0", "text", "a"];

/** What is looked up. */
interface Lookup {
  /** The schemas that have a name. */
  readonly named: Readonly<Record<string, JsonSchema>>;
  /** The name of the property or parameter, if it has one. */
  readonly name?: string;
}

/** A value that fits the schema. */
export function exampleOf(schema: JsonSchema, { named, name }: Lookup): unknown {
  if (schema.$ref !== undefined) {
    const target = named[schema.$ref.replace(/^.*\//, "")];
    return target === undefined ? null : exampleOf(target, { named });
  }
  const [given] = schema.examples ?? [];
  for (const value of [given, schema.const, schema.default, schema.enum?.[0]]) {
    if (value !== undefined) return value;
  }
  const [option] = schema.anyOf ?? schema.oneOf ?? [];
  if (option !== undefined)
    return exampleOf(option, { named, ...(name === undefined ? {} : { name }) });
  const hint = name === undefined ? undefined : BY_NAME[name];
  if (hint !== undefined && fits(hint, schema)) return hint;
  return byType(schema, named);
}

function byType(schema: JsonSchema, named: Lookup["named"]): unknown {
  const type = [schema.type ?? (schema.properties === undefined ? "null" : "object")].flat()[0];
  if (type === "object") return objectOf(schema, named);
  if (type === "array")
    return schema.items === undefined ? [] : [exampleOf(schema.items, { named })];
  if (type === "boolean") return true;
  if (type === "integer" || type === "number") {
    const above = schema.exclusiveMinimum === undefined ? 1 : schema.exclusiveMinimum + 1;
    return Math.max(schema.minimum ?? 1, above);
  }
  if (type !== "string") return null;
  if (schema.pattern !== undefined) return PATTERNED.find((text) => fits(text, schema)) ?? "text";
  const text = BY_FORMAT[schema.format ?? ""] ?? "text";
  return text.padEnd(schema.minLength ?? 0, "x").slice(0, schema.maxLength);
}

function objectOf({ properties = {} }: JsonSchema, named: Lookup["named"]): unknown {
  return Object.fromEntries(
    Object.entries(properties).map(([name, field]) => [name, exampleOf(field, { named, name })]),
  );
}

function fits(value: unknown, schema: JsonSchema): boolean {
  const types = [schema.type ?? []].flat();
  if (types.length === 0) return true;
  if (Array.isArray(value)) return types.includes("array");
  if (Number.isInteger(value)) return types.includes("integer") || types.includes("number");
  if (typeof value === "string" && schema.pattern !== undefined) {
    return types.includes("string") && new RegExp(schema.pattern, "u").test(value);
  }
  return types.includes(typeof value);
}
