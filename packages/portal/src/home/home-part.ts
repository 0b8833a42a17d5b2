/** The portal's first page: what runs here and links to the rest, in the reader's language. */
import { needs } from "../access/permission.ts";
import { html, page } from "../http/page.ts";
import type { PortalPart } from "../part.ts";
import { VERSION } from "../version.ts";
import { type Language, languageOf } from "./language.ts";

const TEXTS = {
  en: {
    title: "Ropeway portal",
    lead: "This installation is running. It serves:",
    docs: "API documentation",
    ready: "Readiness, probe by probe",
    metrics: "Metrics for Prometheus",
    next: "Try it",
  },
  zh: {
    title: "Ropeway 门户",
    lead: "本实例正在运行，提供以下功能：",
    docs: "API 文档",
    ready: "就绪状态（逐项检查）",
    metrics: "Prometheus 指标",
    next: "试一试",
  },
} as const;

/** The part for the home page; it lists every part. */
export function homePart(parts: () => readonly PortalPart[]): PortalPart {
  return {
    name: "home",
    about: { en: "The first page of the portal.", zh: "门户首页。" },
    routes(app) {
      app.get(
        "/",
        {
          config: needs("public"),
          schema: { summary: "The first page", produces: ["text/html"] },
        },
        (request, reply) => {
          const language = languageOf(request.headers["accept-language"]);
          const origin = `${request.protocol}://${request.host}`;
          reply.header("vary", "accept-language").header("content-language", language);
          return reply.type("text/html; charset=utf-8").send(homePage(language, parts(), origin));
        },
      );
    },
  };
}

function homePage(language: Language, parts: readonly PortalPart[], origin: string): string {
  const texts = TEXTS[language];
  const shown = parts.filter(({ name }) => name !== "home");
  const body = html`<main>
<h1>${texts.title}</h1>
<p class="mute">${VERSION}</p>
<p>${texts.lead}</p>
<ul class="plain">
${shown.map(
  ({ name, about }) =>
    html`<li><a href="/docs#tag-${name}"><strong>${name}</strong></a> ${about[language]}</li>`,
)}
</ul>
<p><a href="/docs">${texts.docs}</a> · <a href="/openapi.json">OpenAPI 3.1</a> ·
<a href="/readyz?verbose">${texts.ready}</a> · <a href="/metrics">${texts.metrics}</a></p>
<h2>${texts.next}</h2>
<pre>curl ${origin}/healthz
curl -u admin ${origin}/api/session</pre>
</main>`;
  return page({ title: texts.title, lang: language, body });
}
