/**
 * Checks requests against zod schemas and says in our words what does not fit: which parameter, its
 * value, and what is expected. Values of parameters that look like secrets are not repeated, and
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
  const expected = issue.message
    .replace(/^Invalid input: /, "")
    .replace(/^./, (c) => c.toLowerCase());
  const shown = isShown(path, value) ? ` is ${show(value)}` : "";
  return { pointer, detail: `${name}${shown}: ${expected}` };
}

function isShown(path: readonly string[], value: unknown): boolean {
  if (path.length === 0 || path.some((key) => SECRET.test(key))) return false;
  return value === undefined || value === null || typeof value !== "object";
}

/** RFC 6901. */
function escapePointer(part: string): string {
  return part.replace(/~/g, "~0").replace(/\//g, "~1");
}
