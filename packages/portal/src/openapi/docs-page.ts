/** The API's description as one readable page: no script, nothing from elsewhere. */
import { type Html, html, page } from "../http/page.ts";
import { PROBLEMS } from "../http/problems.ts";
import type { ApiDescription, JsonSchema, Operation } from "./description.ts";

/** Renders the page. */
export function docsPage(description: ApiDescription): string {
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const body = html`<header>
<h1>${description.info.title}</h1>
<p class="mute">Version ${description.info.version} · <a href="/openapi.json">OpenAPI 3.1</a> · <a href="/">Home</a></p>
<p>Sign in with <code>curl -u admin ...</code>, with a token from <code>POST /api/session</code> as
<code>Authorization: Bearer</code>, or in a browser with a cookie.</p>
</header>
<main>
${description.tags.map(
  (tag) => html`<section aria-labelledby="tag-${tag.name}">
<h2 id="tag-${tag.name}">${tag.name}</h2>
<p>${tag.description}</p>
${operations
  .filter(({ operation }) => operation.tags?.includes(tag.name))
  .map(({ path, method, operation }) =>
    operationView(`${method.toUpperCase()} ${path}`, operation),
  )}
</section>`,
)}
<section><h2 id="schemas">Schemas</h2>
${Object.entries(description.components.schemas).map(
  ([name, schema]) => html`<h3 id="schema-${name}">${name}</h3>
<p>${schema.description}</p>${fields(schema)}`,
)}</section>
<section><h2 id="problems">Problems</h2>
<p>Every error is <code>application/problem+json</code> (RFC 9457); branch on its <code>code</code>.</p>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>
${Object.entries(PROBLEMS).map(
  ([code, { status, title }]) =>
    html`<tr id="${code}"><td><code>${code}</code></td><td>${status}</td><td>${title}</td></tr>`,
)}
</tbody></table></section>
</main>`;
  return page({ title: description.info.title, lang: "en", body });
}

function operationView(name: string, operation: Operation): Html {
  const [method = "", path = ""] = name.split(" ", 2);
  const access = operation["x-permission"] ?? "public";
  const body = operation.requestBody?.content["application/json"]?.schema;
  return html`<details>
<summary><span class="method">${method}</span><code>${path}</code> <span>${operation.summary}</span>
<span class="tag">${access}</span></summary>
<div>
<p>${operation.description}</p>
${parameters(operation)}
${body === undefined ? undefined : html`<h3>Body</h3>${fields(body)}`}
<h3>Answers</h3>
<table><tbody>
${Object.entries(operation.responses).map(
  ([status, answer]) =>
    html`<tr><td>${status}</td><td>${answer.description}</td><td>${Object.entries(
      answer.content ?? {},
    ).map(
      ([type, { schema }]) => html`<code>${type}</code> ${schema ? typeOf(schema) : ""} `,
    )}</td></tr>`,
)}
</tbody></table>
</div>
</details>`;
}

function parameters({ parameters: all = [] }: Operation): Html | undefined {
  if (all.length === 0) return undefined;
  return html`<h3>Parameters</h3>
<table><thead><tr><th>Name</th><th>In</th><th>Type</th><th>Meaning</th></tr></thead><tbody>
${all.map(
  ({ name, in: place, required, description, schema }) =>
    html`<tr><td><code>${name}</code>${required ? " (required)" : ""}</td><td>${place}</td>
<td>${typeOf(schema)}</td><td>${description ?? schema.description}</td></tr>`,
)}
</tbody></table>`;
}

function fields(schema: JsonSchema): Html {
  const { properties = {}, required = [] } = schema;
  if (Object.keys(properties).length === 0) return html`<p>${typeOf(schema)}</p>`;
  return html`<table><thead><tr><th>Field</th><th>Type</th><th>Meaning</th></tr></thead><tbody>
${Object.entries(properties).map(
  ([name, field]) =>
    html`<tr><td><code>${name}</code>${required.includes(name) ? "" : " (optional)"}</td>
<td>${typeOf(field)}</td><td>${field.description}</td></tr>`,
)}
</tbody></table>`;
}

function typeOf(schema: JsonSchema): Html {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace(/^.*\//, "");
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  if (schema.anyOf !== undefined) {
    return html`${schema.anyOf.map((one, i) => html`${i > 0 ? " or " : ""}${typeOf(one)}`)}`;
  }
  if (schema.const !== undefined) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.enum !== undefined) {
    return html`<code>${schema.enum.map((value) => JSON.stringify(value)).join(" | ")}</code>`;
  }
  if (schema.items !== undefined) return html`list of ${typeOf(schema.items)}`;
  const type = [schema.type ?? "anything"].flat().join(" or ");
  return html`${schema.format === undefined ? type : `${type} (${schema.format})`}`;
}
