import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { languageOf } from "../src/home/language.ts";
import { html } from "../src/http/page.ts";
import { needs, type PortalPart } from "../src/index.ts";
import type { ApiDescription } from "../src/openapi/description.ts";
import { Stage } from "./stage.fixture.ts";

const part: PortalPart = {
  name: "things",
  about: { en: "Things & <more>.", zh: "东西。" },
  permissions: { "thing:view": { least: "viewer", means: "See things." } },
  routes(app) {
    app.get(
      "/api/things/:id",
      {
        config: needs("thing:view"),
        schema: {
          summary: "One <thing>",
          params: z.object({ id: z.string().describe("Which one.") }),
          querystring: z.object({ limit: z.coerce.number().int().max(500).default(20) }),
          response: { 200: z.object({ id: z.string(), at: z.iso.datetime() }) },
        },
      },
      () => ({ id: "1", at: new Date(0).toISOString() }),
    );
  },
};

let stage: Stage;
let api: ApiDescription & { openapi: string };

beforeAll(async () => {
  stage = await Stage.open({ parts: [part] });
  api = (await (await stage.ask("/openapi.json")).json()) as typeof api;
});

afterAll(() => stage.close());

test("the description is OpenAPI 3.1 and has every route, with its permission and its errors", () => {
  expect(api.openapi).toBe("3.1.0");
  const described = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      expect(operation.summary, `${method} ${path}`).toBeTruthy();
      expect(operation.responses["4XX"]?.content).toHaveProperty("application/problem+json");
      const permission = operation["x-permission"] ?? "public";
      return `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ":$1")} ${permission}`;
    }),
  );
  const served = stage.portal.routes.map(
    (route) => `${route.method} ${route.url} ${route.permission}`,
  );
  expect(described.sort()).toEqual(served.sort());
});

test("every reference in the description has its target, and every named schema is used", () => {
  const text = JSON.stringify(api);
  const references = [...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
    (match) => match[1],
  );
  expect([...new Set(references)].sort()).toEqual(Object.keys(api.components.schemas).sort());
});

test("a route is described with parameters, formats and what zod knows of them", () => {
  const operation = api.paths["/api/things/{id}"]?.get;
  expect(operation?.tags).toEqual(["things"]);
  expect(operation?.parameters).toEqual([
    {
      in: "query",
      name: "limit",
      required: false,
      description: "The maximum number of items.",
      example: 20,
      schema: { type: "integer", maximum: 500, default: 20 },
    },
    {
      in: "path",
      name: "id",
      required: true,
      description: "Which one.",
      example: "4711",
      schema: { type: "string" },
    },
  ]);
  const schema = operation?.responses["200"]?.content?.["application/json"]?.schema;
  expect(schema?.properties?.at).toEqual({ type: "string", format: "date-time" });
  expect(api.paths["/api/session"]?.delete?.responses["204"]).toEqual({ description: "Done." });
});

test("the page of the API shows every route and problem, and needs nothing from elsewhere", async () => {
  const answer = await stage.ask("/docs");
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const text = await answer.text();
  for (const path of Object.keys(api.paths)) expect(text).toContain(`<code>${path}</code>`);
  expect(text).toContain('<tr id="ROUTE_NOT_FOUND">');
  expect(text).toContain("One &lt;thing&gt;");
  expect(text).toContain("Things &amp; &lt;more&gt;.");
  expect(text).not.toMatch(/<script|https?:\/\/|style="|\bon\w+="/);
});

test("the style sheet is the one that the security policy names", async () => {
  for (const path of ["/", "/docs"]) {
    const answer = await stage.ask(path);
    const style = /<style>(.*?)<\/style>/s.exec(await answer.text())?.[1] ?? "";
    const hash = createHash("sha256").update(style).digest("base64");
    expect(answer.headers.get("content-security-policy")).toContain(`'sha256-${hash}'`);
  }
});

test("the first page tells what there is, in English or Chinese", async () => {
  const read = async (language: string) => {
    const answer = await stage.ask("/", { headers: { "accept-language": language } });
    expect(answer.headers.get("vary")).toBe("accept-language");
    return answer.text();
  };
  const english = await read("fr, en;q=0.5");
  expect(english).toContain('<html lang="en">');
  expect(english).toContain("Things &amp; &lt;more&gt;.");
  const chinese = await read("zh-CN,zh;q=0.9,en;q=0.8");
  expect(chinese).toContain('<html lang="zh">');
  expect(chinese).toContain("东西。");
  for (const text of [english, chinese]) {
    for (const link of ["/docs", "/openapi.json", "/readyz?verbose", "/metrics"]) {
      expect(text).toContain(`href="${link}"`);
      expect((await stage.ask(link)).status).toBe(200);
    }
    expect(text).toContain(`curl ${stage.url}/healthz`);
  }
});

test("text in a page is escaped, markup of ours is not", async () => {
  const text = html`<p class="${'"><b>'}">${["<i>", 1, undefined, html`<b>ok</b>`]}</p>`.text;
  expect(text).toBe('<p class="&quot;&gt;&lt;b&gt;">&lt;i&gt;1<b>ok</b></p>');
});

test.each([
  [undefined, "en"],
  ["", "en"],
  ["*", "en"],
  ["de", "en"],
  ["zh", "zh"],
  ["zh-Hant-TW", "zh"],
  ["en;q=0.1, ZH-cn;q=0.2", "zh"],
  ["zh;q=0, en;q=0.1", "en"],
  ["zh;q=nonsense", "en"],
])("Accept-Language %s means %s", (header, language) => {
  expect(languageOf(header)).toBe(language);
});
