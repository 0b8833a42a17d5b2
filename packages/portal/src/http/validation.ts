/**
 * Checks requests against zod schemas. The error names the parameter, its
 * value and the expected value. Values of parameters that look like secrets are not repeated, and
 * neither are whole objects, which may hold such parameters.
 */
import { show } from "@ropeway/core/internal";
import type { FastifySchemaCompiler } from "fastify";
import type { $ZodIssue, $ZodType } from "zod/v4/core";
import { safeParse } from "zod/v4/core";
import { InvalidRequestError, type RequestFault } from "../errors.ts";

/** Fastify's names of the parts of a request, and ours. */
const PLACES: Readonly<Record<string, string>> = {
  body: "body",
  querystring: "query",
  params: "path",
  headers: "header",
};
const SECRET = /passw|secret|token|authorization|cookie|^(current|next)$/i;

/** The validator of every route. */
export const validatorCompiler: FastifySchemaCompiler<$ZodType> = ({ schema, httpPart }) => {
  const place = PLACES[httpPart ?? ""] ?? "request";
  return (data: unknown) => {
    const result = safeParse(schema, data);
    if (result.success) return { value: result.data };
    return {
      error: new InvalidRequestError(
        result.error.issues.map((issue) => faultOf(place, data, issue)),
      ),
    };
  };
};

function faultOf(place: string, data: unknown, issue: $ZodIssue): RequestFault {
  const path = issue.path.map(String);
  const pointer = `/${[place, ...path].map(escapePointer).join("/")}`;
  const name = [place, path.join(".")].filter(Boolean).join(" ");
  const value = path.reduce<unknown>(
    (holder, key) => (holder as Record<string, unknown> | null | undefined)?.[key],
    data,
  );
  const shown = isShown(path, value) ? ` is ${show(value)}, but` : "";
  return { pointer, detail: `${name}${shown} ${demandOf(issue)}` };
}

const UNITS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ["character", "characters"],
  array: ["entry", "entries"],
  set: ["entry", "entries"],
  object: ["field", "fields"],
};
const TYPES: Readonly<Record<string, string>> = {
  int: "a whole number",
  array: "an array",
  object: "an object",
  record: "an object",
  nonoptional: "given",
};

/** What a value must be instead, as the end of a sentence: zod's own words are about schemas. */
function demandOf(issue: $ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPES[issue.expected] ?? `a ${issue.expected}`}`;
    case "too_small":
      return boundOf(
        issue.origin,
        issue.inclusive === false ? "more than" : "at least",
        issue.minimum,
      );
    case "too_big":
      return boundOf(
        issue.origin,
        issue.inclusive === false ? "less than" : "at most",
        issue.maximum,
      );
    case "invalid_value":
      return `must be ${issue.values.length === 1 ? "" : "one of "}${issue.values.map((one) => show(one)).join(", ")}`;
    case "unrecognized_keys":
      return `has unknown fields: ${issue.keys
        .slice(0, 5)
        .map((key) => show(key))
        .join(", ")}`;
    case "invalid_format":
      return issue.pattern === undefined || issue.format !== "regex"
        ? `must be a valid ${issue.format}`
        : `must match ${issue.pattern}`;
    default:
      return `is not valid: ${issue.message.replace(/^Invalid input: /, "").replace(/^./, (c) => c.toLowerCase())}`;
  }
}

function boundOf(origin: string, relation: string, bound: number | bigint): string {
  const [one, many] = UNITS[origin] ?? [];
  if (one === undefined) return `must be ${relation} ${bound}`;
  return `must have ${relation} ${bound} ${Number(bound) === 1 ? one : many}`;
}

function isShown(path: readonly string[], value: unknown): boolean {
  if (path.length === 0 || path.some((key) => SECRET.test(key))) return false;
  return value === undefined || value === null || typeof value !== "object";
}

/** RFC 6901. */
function escapePointer(part: string): string {
  return part.replace(/~/g, "~0").replace(/\//g, "~1");
}
