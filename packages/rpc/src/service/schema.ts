/** Schema functions of services, in addition to core's Standard Schema types. */
import type { Schema, SchemaIssue } from "@ropeway/core";
import { issuePath } from "@ropeway/core/internal";

/** Any Standard Schema. */
export type AnySchema = Schema<unknown, unknown>;

/** A schema whose library can also convert it to JSON Schema. */
interface DrawnSchema {
  readonly "~standard": {
    readonly jsonSchema?: Readonly<
      Record<
        "input" | "output",
        (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>
      >
    >;
  };
}

/** Issues in the form that is sent: message and path only. */
export function portable(
  issues: readonly SchemaIssue[],
): readonly { message: string; path: string }[] {
  return issues.map(({ message, path }) => ({ message, path: issuePath(path ?? []) }));
}

/** The schema as JSON Schema, if its library supports that. */
export function jsonSchemaOf(
  schema: AnySchema | undefined,
  side: "input" | "output",
): Record<string, unknown> | undefined {
  try {
    const drawn = schema as DrawnSchema | undefined;
    const { $schema: _, ...rest } =
      drawn?.["~standard"].jsonSchema?.[side]({ target: "draft-2020-12" }) ?? {};
    return Object.keys(rest).length === 0 ? undefined : rest;
  } catch {
    return undefined; // not every type can be converted to JSON Schema; the description then has none
  }
}
