/**
 * Adds to a description what the generator does not know: an id for every operation, errors, what a
 * parameter means, examples, and which named schemas are in use.
 */
import { STATUS_CODES } from "node:http";
import type { Answer, ApiDescription, JsonSchema, MediaTypes, Operation } from "./description.ts";
import { exampleOf } from "./example.ts";
import { PARAMETERS, SUPPLEMENTS, WILDCARDS } from "./supplement.ts";

type Schemas = ApiDescription["components"]["schemas"];

const problem = (description: string): Answer => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
});

/** The finished description. */
export function complete(description: ApiDescription): ApiDescription {
  const { schemas } = description.components;
  const paths = Object.fromEntries(
    Object.entries(description.paths).map(([path, operations]) => {
      const documented = WILDCARDS[path] ?? path;
      const completed = mapValues(operations, (operation, method) => {
        const given = { ...operation, ...SUPPLEMENTS[`${method} ${path}`] };
        return completeOperation(given, { method, path: documented, schemas });
      });
      return [documented, completed];
    }),
  );
  const used = Object.entries(schemas).filter(([id]) =>
    JSON.stringify([paths, schemas]).includes(`"#/components/schemas/${id}"`),
  );
  const components = { ...description.components, schemas: Object.fromEntries(used) };
  return { ...description, paths, components };
}

interface Place {
  readonly method: string;
  readonly path: string;
  readonly schemas: Schemas;
}

function completeOperation(operation: Operation, place: Place): Operation {
  const { parameters, requestBody, responses } = operation;
  const { schemas: named } = place;
  return {
    ...operation,
    operationId: operation.operationId ?? operationId(place),
    ...(parameters === undefined
      ? {}
      : { parameters: parameters.map((each) => parameter(each, named)) }),
    ...(requestBody === undefined
      ? {}
      : { requestBody: { ...requestBody, content: withExamples(requestBody.content, named) } }),
    responses: {
      ...mapValues(responses, (answer, status) => completeAnswer(answer, status, named)),
      "4XX": problem("The request was refused; `code` says why."),
      "5XX": problem("The portal or its Redis could not do it."),
    },
  };
}

/** `get /api/jobs/queues/{queue}` is getJobsQueuesByQueue. */
function operationId({ method, path }: Place): string {
  const words = path
    .split("/")
    .filter((word) => word !== "" && word !== "api")
    .map((word) =>
      capital(word.replace(/^\{(.*)\}$/, (_all, name: string) => `By${capital(name)}`)),
    );
  return method + (words.length === 0 ? "Home" : words.join(""));
}

function capital(text: string): string {
  const parts = text.split(/[^a-zA-Z0-9]+/).filter((part) => part !== "");
  return parts.map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
}

type Parameter = NonNullable<Operation["parameters"]>[number];

function parameter(given: Parameter, named: Schemas): Parameter {
  const { name, schema } = given;
  const description = given.description ?? schema.description ?? PARAMETERS[name] ?? `The ${name}.`;
  const example = given.example ?? exampleOf(schema, { named, name });
  return { ...given, description, example };
}

function completeAnswer(answer: Answer, status: string, named: Schemas): Answer {
  const unsaid = answer.description === "Default Response";
  const description = unsaid ? (STATUS_CODES[status] ?? "") : answer.description;
  if (status === "204" || answer.content === undefined) return { description };
  return { ...answer, description, content: withExamples(answer.content, named) };
}

function withExamples(content: MediaTypes, named: Schemas): MediaTypes {
  return mapValues(content, (media, type) => {
    if (media.schema === undefined || !type.endsWith("json")) return media;
    return { ...media, example: media.example ?? exampleOf(media.schema as JsonSchema, { named }) };
  });
}

function mapValues<V, W>(
  record: Readonly<Record<string, V>>,
  change: (value: V, key: string) => W,
): Record<string, W> {
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => [key, change(value, key)]),
  );
}
