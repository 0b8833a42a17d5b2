/**
 * Validation by any library that follows Standard Schema (zod, valibot, arktype, ...): we only rely on
 * the `~standard` member, so none of them is a dependency.
 */

/** The part of a Standard Schema (v1) that is used here. */
export interface Schema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
      readonly output: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

/** The outcome of a validation. */
export type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

/** One problem of a value. */
export interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** Any Standard Schema. */
export type AnySchema = Schema<unknown, unknown>;

/** What may be passed for validation. */
export type InputOf<S> = S extends AnySchema
  ? NonNullable<S["~standard"]["types"]>["input"]
  : unknown;

/** What validation gives. */
export type OutputOf<S> = S extends AnySchema
  ? NonNullable<S["~standard"]["types"]>["output"]
  : unknown;

/** Issues as one line for a message: `name: expected string; age: too small`. */
export function summary(issues: readonly Issue[]): string {
  return issues
    .slice(0, 5)
    .map(({ message, path }) => (path?.length ? `${pathOf(path)}: ${message}` : message))
    .join("; ");
}

/** Issues as they travel: message and path only. */
export function portable(issues: readonly Issue[]): readonly { message: string; path: string }[] {
  return issues.map(({ message, path }) => ({ message, path: pathOf(path ?? []) }));
}

/** The schema as JSON Schema, if its library can tell. */
export function jsonSchemaOf(
  schema: AnySchema | undefined,
  side: "input" | "output",
): Record<string, unknown> | undefined {
  try {
    const { $schema: _, ...rest } =
      schema?.["~standard"].jsonSchema?.[side]({ target: "draft-2020-12" }) ?? {};
    return Object.keys(rest).length === 0 ? undefined : rest;
  } catch {
    return undefined; // not every type can be drawn as JSON Schema; the description then has none
  }
}

function pathOf(path: NonNullable<Issue["path"]>): string {
  return path.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
}
