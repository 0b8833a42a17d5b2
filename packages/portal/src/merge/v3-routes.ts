/** The paths of the merge queue's own port, for callers with an account. */

import type { FastifyRequest } from "fastify";
import { LARGE_PAGE_BYTES } from "../http/page-budget.ts";
import type { PortalApp } from "../part.ts";
import { push, view } from "./route-schemas.ts";
import type { V3Handler, V3Request } from "./v3-handler.ts";
import { V3_PATH } from "./v3-request.ts";

export async function addV3(
  app: PortalApp,
  handler: V3Handler,
  maxBodyBytes: number,
): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) =>
      done(null, body),
    );
    scope.post(
      `${V3_PATH}*`,
      { ...push, bodyLimit: maxBodyBytes, schema: { summary: "Push an item (v3)" } },
      async (request, reply) => reply.code(202).send(await handler.push(partsOf(request))),
    );
    scope.delete(
      `${V3_PATH}*`,
      { ...push, schema: { summary: "Delete what is queued (v3)" } },
      (request) => handler.remove(partsOf(request)),
    );
    scope.get(
      `${V3_PATH}*`,
      {
        config: { ...view.config, pageBytes: LARGE_PAGE_BYTES },
        schema: { summary: "Show what is queued (v3)" },
      },
      (request) => handler.peek(partsOf(request)),
    );
  });
}

/** The raw URL, since Fastify's is decoded. */
function partsOf({ raw, query, headers, body }: FastifyRequest): V3Request {
  return { url: raw.url ?? "", query, headers, body };
}
