/**
 * Validation by any library that follows Standard Schema (zod, valibot, arktype, ...). Only the
 * `~standard` member is used, so none of these libraries is a dependency.
 */

/** The part of a Standard Schema (v1) that is used here. */
export interface Schema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** The outcome of a validation. */
export type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** One reason why a value was refused, and where in the value it is. */
export interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type of the values that may be passed to a schema. */
export type InputOf<S> =
  S extends Schema<unknown, unknown> ? NonNullable<S["~standard"]["types"]>["input"] : unknown;

/** The type of the values that a schema returns. */
export type OutputOf<S> =
  S extends Schema<unknown, unknown> ? NonNullable<S["~standard"]["types"]>["output"] : unknown;

/** Whether a value is a Standard Schema. */
export function isSchema(value: unknown): value is Schema {
  const inner = (value as Partial<Schema> | null | undefined)?.["~standard"];
  return typeof inner?.validate === "function";
}

/** The issues as one line for a message: `name: expected a string; age: too small`. */
export function issuesText(issues: readonly SchemaIssue[]): string {
  return issues
    .slice(0, 5)
    .map(({ message, path }) => (path?.length ? `${issuePath(path)}: ${message}` : message))
    .join("; ");
}

/** The path of an issue as a string: `items.0.name`. */
export function issuePath(path: NonNullable<SchemaIssue["path"]>): string {
  return path.map((step) => String(typeof step === "object" ? step.key : step)).join(".");
}
