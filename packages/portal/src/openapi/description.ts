/**
 * The API's description, OpenAPI 3.1, made from the same zod schemas that check requests. Each
 * operation has its permission and its errors, which are problems.
 */
import fastifySwagger from "@fastify/swagger";
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from "fastify-type-provider-zod";
import { z } from "zod";
import type { $ZodType } from "zod/v4/core";
import type { RouteAccess } from "../access/permission.ts";
import { OpenedSession, Problem, Readiness, Session } from "../contract.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { VERSION } from "../version.ts";
import { complete } from "./completion.ts";

/** Schemas that have a name in the description. A registry of our own: zod's is the whole process's. */
const named = z.registry<{ id: string }>();
for (const [id, schema] of Object.entries({ Problem, Readiness, Session, OpenedSession })) {
  named.add(schema, { id });
}

/** Starts describing the routes that are added from now on. */
export async function describeApi(app: PortalApp, parts: readonly PortalPart[]): Promise<void> {
  const shared = { schemaRegistry: named, zodToJsonConfig: { override: tidy } };
  const toJson = createJsonSchemaTransform({ ...shared, skipList: [] });
  const nameSchemas = createJsonSchemaTransformObject(shared);
  await app.register(fastifySwagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Ropeway portal",
        version: VERSION,
        description: "The HTTP API of a Ropeway installation.",
        license: { name: "MIT", identifier: "MIT" },
      },
      servers: [{ url: "/", description: "The portal that serves this description." }],
      tags: parts.map(({ name, about }) => ({ name, description: about.en })),
      components: {
        securitySchemes: {
          cookie: { type: "apiKey", in: "cookie", name: "ropeway_session" },
          bearer: { type: "http", scheme: "bearer" },
          basic: { type: "http", scheme: "basic" },
        },
      },
    },
    transform: (input) => {
      const { schema, url } = toJson(input);
      const permission = input.route.config?.permission;
      const given = input.schema as { readonly produces?: readonly string[] } | undefined;
      return { schema: { ...schema, ...produced(given), ...accessOf(permission) }, url };
    },
    transformObject: nameSchemas,
  });
}

/** Restores the texts of .describe() and .meta(), and removes patterns that only repeat the format. */
function tidy({ zodSchema, jsonSchema }: { zodSchema: $ZodType; jsonSchema: object }): void {
  const schema = jsonSchema as Record<string, unknown>;
  Object.assign(schema, z.globalRegistry.get(zodSchema));
  if (schema.format !== undefined) delete schema.pattern;
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum;
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum;
}

/** The response of a route that produces no JSON: `produces: ["text/event-stream"]` in its schema. */
function produced(schema: { readonly produces?: readonly string[] } | undefined): object {
  const types = schema?.produces ?? [];
  if (types.length === 0) return {};
  const description = types.includes("text/event-stream") ? "Events, as they happen." : "A text.";
  const text = { schema: { type: "string" } };
  const content = Object.fromEntries(types.map((type) => [type, text]));
  return { response: { 200: { description, content } } };
}

function accessOf(permission: RouteAccess | undefined): object {
  if (permission === undefined || permission === "public") return { security: [] };
  return {
    security: [{ cookie: [] }, { bearer: [] }, { basic: [] }],
    "x-permission": permission,
  };
}

/** The parts of a description that we read again, to complete it or to show it. */
export interface ApiDescription {
  readonly info: { readonly title: string; readonly version: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

/** One method of one path. */
export interface Operation {
  readonly operationId?: string;
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly "x-permission"?: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly description?: string;
    readonly example?: unknown;
    readonly schema: JsonSchema;
  }[];
  readonly requestBody?: { readonly required?: boolean; readonly content: MediaTypes };
  readonly responses: Readonly<Record<string, Answer>>;
}

/** One response of an operation. */
export interface Answer {
  readonly description: string;
  readonly content?: MediaTypes;
}

/** Bodies by their media type. */
export type MediaTypes = Readonly<
  Record<string, { readonly schema?: JsonSchema; readonly example?: unknown }>
>;

/** The parts of a JSON schema that are shown. */
export interface JsonSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
}

/** The finished description of an app. */
export function descriptionOf(app: PortalApp): ApiDescription {
  return complete(app.swagger() as unknown as ApiDescription);
}
