import { readFileSync } from "node:fs";
import { Cluster, openRedisStore } from "@ropeway/cluster";
import { MergeQueue } from "@ropeway/merge";
import type { Registry } from "prom-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { assemble } from "../src/assembly.ts";
import * as errors from "../src/errors.ts";
import { PROBLEMS } from "../src/http/problems.ts";
import {
  alertsPart,
  createPortal,
  jobsPart,
  kitPart,
  mergePart,
  nodesPart,
  type Portal,
  type PortalPart,
  rpcPart,
  tasksPart,
} from "../src/index.ts";
import { PortalKeys } from "../src/keys.ts";
import { processMetrics } from "../src/metrics/process-metrics.ts";
import { resolvePortalOptions } from "../src/options.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let portal: Portal;
let parts: readonly PortalPart[];

beforeAll(async () => {
  stage = await Stage.open();
  // Every part that this package has besides the built-in ones: a new one is added here.
  const cluster = new Cluster(openRedisStore(stage.redis));
  parts = [
    mergePart(new MergeQueue(stage.redis, { prefix: "{queue}" })),
    jobsPart(stage.redis),
    rpcPart(stage.redis),
    tasksPart(cluster),
    nodesPart(cluster),
    alertsPart(cluster),
    kitPart(stage.redis),
  ];
  portal = createPortal(stage.redis, { parts });
  await portal.start();
});

afterAll(async () => {
  await portal.close();
  await stage.close();
});

const DOCS = "../../../docs/reference";
const read = (page: string) => readFileSync(new URL(`${DOCS}/${page}`, import.meta.url), "utf8");

/** The page with its tables as the source has them now; `vitest -u` writes it. */
async function expectInStep(page: string, tables: Record<string, string[][]>): Promise<void> {
  let text = read(page);
  for (const [name, [head = [], ...rows]] of Object.entries(tables)) {
    const lines = [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
    const place = new RegExp(`(<!-- ${name} -->\n).*?(<!-- /${name} -->)`, "s");
    expect(text, `${page} has a place for ${name}`).toMatch(place);
    text = text.replace(place, (_all, begin, end) => `${begin}\n${lines.join("\n")}\n\n${end}`);
  }
  await expect(text).toMatchFileSnapshot(`${DOCS}/${page}`);
}

const code = (text: string) => `\`${text}\``;

test("docs/reference/http.md has every route, permission and problem (update with vitest -u)", async () => {
  const { policy } = assemble(stage.redis, resolvePortalOptions({ parts }));
  const permissions = [...policy.permissions].map(([name, { least, means }]) => {
    return [code(name), least, means];
  });
  const routes = portal.routes.map(({ method, url, permission, summary }) => {
    return [
      code(`${method} ${url}`),
      permission === "public" ? "public" : code(permission),
      summary ?? "",
    ];
  });
  const problems = Object.entries(PROBLEMS).map(([name, { status, title, detail }]) => {
    return [code(name), String(status), `${title}.${detail === undefined ? "" : ` ${detail}`}`];
  });
  await expectInStep("http.md", {
    permissions: [["permission", "least role", "allows"], ...permissions],
    routes: [["route", "needs", "what it does"], ...routes],
    problems: [["code", "status", "meaning"], ...problems],
  });
});

test("docs/reference/metrics.md has every metric (update with vitest -u)", async () => {
  const { plan } = assemble(stage.redis, resolvePortalOptions({ parts }));
  await expectInStep("metrics.md", { portal: await metricsTable(plan.metrics.registry) });
  // Linux has more of these than other systems, so they are only looked up.
  const [, ...rows] = await metricsTable(processMetrics());
  for (const row of rows) expect(read("metrics.md")).toContain(`| ${row.join(" | ")} |`);
});

async function metricsTable(registry: Registry): Promise<string[][]> {
  const metrics = registry.getMetricsAsArray() as unknown as {
    name: string;
    labelNames: string[];
  }[];
  const labels = new Map(metrics.map(({ name, labelNames }) => [name, labelNames]));
  const rows = (await registry.getMetricsAsJSON()).map(({ name, type, help }) => {
    return [code(name), String(type), (labels.get(name) ?? []).map(code).join(", "), help];
  });
  return [["metric", "type", "labels", "meaning"], ...rows];
}

test("docs/reference/errors.md lists every error of the portal", () => {
  const section =
    read("errors.md")
      .split(/^## /m)
      .find((part) => part.startsWith("portal\n")) ?? "";
  const documented = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map((row) => row[2]);
  const thrown = Object.keys(errors).filter((name) => /Error$/.test(name));
  expect(documented.sort()).toEqual(thrown.sort());
});

test("docs/reference/wire/portal.md lists every key", () => {
  const keys = new PortalKeys("p");
  const spelled = [
    keys.users(),
    keys.user("{name}"),
    keys.mark(),
    keys.session("{digest}"),
    keys.sessionsOf("{name}"),
    keys.loginsOfUser("{name}", "{generation}", "{place}"),
    keys.loginsOfAccount("{name}", "{generation}"),
    keys.loginsOnDevice("{device}"),
    keys.loginsFrom("{place}"),
  ].map((key) => key.replace("p:{portal}:", ""));
  const documented = [
    ...read("wire/portal.md").matchAll(/^\| `([\w:{}]+)` \| (?:set|string|hash|sorted set)/gm),
  ];
  expect(documented.map((row) => row[1])).toEqual(spelled);
  const methods = Object.getOwnPropertyNames(PortalKeys.prototype);
  expect(methods.filter((name) => name !== "constructor")).toHaveLength(spelled.length);
});

test("the alert rules of the guide name metrics that exist, and use increase() and rate() on counters only", () => {
  const read = (page: string) =>
    readFileSync(new URL(`../../../docs/${page}`, import.meta.url), "utf8");
  const rows = [...read("reference/metrics.md").matchAll(/^\| `(\w+)` \| (\w+) \|/gm)];
  const types = new Map(rows.map(([, name, type]) => [name, type]));
  const rules = [...read("guides/observability.md").matchAll(/^ *expr: (.*)$/gm)].map(
    ([, rule = ""]) => rule,
  );
  expect(rules.length).toBeGreaterThan(0);
  for (const rule of rules) {
    for (const [name] of rule.matchAll(/ropeway_\w+/g)) expect(types.has(name), name).toBe(true);
    for (const [, name] of rule.matchAll(/(?:increase|rate)\((\w+)/g)) {
      expect(types.get(name), rule).toBe("counter");
    }
  }
});
