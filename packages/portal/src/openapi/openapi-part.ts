/** /openapi.json for programs and /docs for people: the same description of the API. */
import { z } from "zod";
import { needs } from "../access/permission.ts";
import type { PortalPart } from "../part.ts";
import { descriptionOf } from "./description.ts";
import { docsPage } from "./docs-page.ts";

/** The part for the API's description. */
export function openapiPart(): PortalPart {
  return {
    name: "docs",
    about: { en: "This API's description.", zh: "本 API 的说明。" },
    routes(app) {
      // Made once, on the first request: routes do not change while the portal runs.
      let made: { readonly json: string; readonly page: string } | undefined;
      const views = () => {
        if (made === undefined) {
          const description = descriptionOf(app);
          made = { json: JSON.stringify(description), page: docsPage(description) };
        }
        return made;
      };
      app.get(
        "/openapi.json",
        {
          config: needs("public"),
          schema: {
            summary: "This API as OpenAPI 3.1",
            response: { 200: z.looseObject({}).describe("An OpenAPI 3.1 document.") },
          },
        },
        (_request, reply) => {
          reply.type("application/json; charset=utf-8").serializer(String);
          return views().json as never; // serialised already
        },
      );
      app.get(
        "/docs",
        {
          config: needs("public"),
          schema: { summary: "This API as a page", produces: ["text/html"] },
        },
        (_request, reply) => reply.type("text/html; charset=utf-8").send(views().page),
      );
    },
  };
}
