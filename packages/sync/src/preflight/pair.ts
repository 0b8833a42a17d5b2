/** Checks that need both ends: memory, modules, clocks, databases, commands with several keys. */
import { type Finding, fine, problem, warning } from "./finding.ts";
import type { ServerFacts } from "./server-facts.ts";
import type { Servers } from "./servers.ts";

const CLOCK_MS = 500;
/** Commands that a cluster refuses when their keys are on different slots. */
const CROSS_SLOT = [
  ..."mset msetnx del unlink rename renamenx smove lmove rpoplpush copy".split(" "),
  ..."sunionstore sinterstore sdiffstore zunionstore zinterstore bitop pfmerge".split(" "),
  ..."eval evalsha fcall exec".split(" "),
];

/** Compares the ends. */
export function pairFindings(from: Servers, to: Servers, findings: Finding[]): void {
  const pair = {
    sources: from.servers.map(({ facts }) => facts),
    targets: to.servers.map(({ facts }) => facts),
  };
  sameServerFindings(pair, findings);
  memoryFindings(pair, findings);
  moduleFindings(pair, findings);
  clockFindings(pair, findings);
  databaseFindings(pair.sources, to, findings);
  if (to.abilities?.rdbVersion === 0) {
    findings.push(
      warning(
        "target RESTORE",
        "the target refuses RESTORE; values are written with commands, which is slower",
        "Allow RESTORE if you can.",
      ),
    );
  }
  // A source cluster has already refused such commands to its own clients.
  if (to.clustered && !from.clustered) crossSlotFindings(pair.sources, findings);
}

interface Pair {
  readonly sources: readonly ServerFacts[];
  readonly targets: readonly ServerFacts[];
}

/** A master and its replicas share one id, see history-id.ts. */
function sameServerFindings({ sources, targets }: Pair, findings: Finding[]): void {
  const idOf = (facts: ServerFacts) => facts.info("master_replid");
  const ids = new Set(targets.map(idOf));
  const same = sources.find((facts) => idOf(facts) !== undefined && ids.has(idOf(facts)));
  if (same === undefined) return;
  findings.push(
    problem(
      "same server",
      `the target is the source ${same.where}, its master or its replica`,
      "Check both addresses. A task would copy its own writes without end.",
    ),
  );
}

function memoryFindings({ sources, targets }: Pair, findings: Finding[]): void {
  const used = sum(
    sources,
    (facts) => facts.number("used_memory_dataset") ?? facts.number("used_memory") ?? 0,
  );
  const limits = targets.map((facts) =>
    Number(facts.config.maxmemory ?? facts.number("maxmemory") ?? 0),
  );
  const taken = sum(targets, (facts) => facts.number("used_memory") ?? 0);
  // If a master has no limit, a lack of memory is not certain.
  const limited = limits.every((limit) => limit > 0);
  const free = limits.reduce((total, limit) => total + limit, 0) - taken;
  if (limited && free < used) {
    const each = Math.ceil(((used + taken) * 1.3) / targets.length);
    findings.push(
      problem(
        "target memory",
        `the source's data takes about ${used} bytes, but the target has ${free} left of maxmemory`,
        `CONFIG SET maxmemory ${each}${targets.length > 1 ? " at each master" : ""}`,
      ),
    );
  } else findings.push(fine("target memory", limited ? `${free} bytes left` : "no maxmemory"));
}

function moduleFindings({ sources, targets }: Pair, findings: Finding[]): void {
  const modules = new Set(sources.flatMap((facts) => facts.modules));
  const missing = [...modules].filter((name) => targets.some((t) => !t.modules.includes(name)));
  if (missing.length > 0) {
    findings.push(
      problem(
        "modules",
        `the target lacks ${missing.join(", ")}`,
        "Load them at the target, or filter their keys out.",
      ),
    );
  }
}

function clockFindings({ sources, targets }: Pair, findings: Finding[]): void {
  const clocks = [...sources, ...targets].map((facts) => facts.clockMs);
  const skew = Math.max(...clocks) - Math.min(...clocks);
  if (skew > CLOCK_MS) {
    findings.push(
      warning(
        "clocks",
        `the servers' clocks differ by ${skew} ms, so keys expire at other moments`,
        "Synchronise the clocks, or use ttlShiftMs.",
      ),
    );
  }
}

function databaseFindings(
  sources: readonly ServerFacts[],
  { abilities, clustered }: Servers,
  findings: Finding[],
): void {
  const highest = Math.max(0, ...sources.flatMap((facts) => [...facts.keys.keys()]));
  if (clustered && highest > 0) {
    findings.push(
      problem(
        "databases",
        `the source uses database ${highest}, but a cluster has only 0`,
        "Map the databases, or copy only database 0.",
      ),
    );
  } else if (abilities !== undefined && highest >= abilities.databases) {
    findings.push(
      problem(
        "databases",
        `the source uses database ${highest}, but the target has ${abilities.databases}`,
        `Set databases ${highest + 1} at the target, or map it with dbMap.`,
      ),
    );
  }
}

function sum(facts: readonly ServerFacts[], pick: (facts: ServerFacts) => number): number {
  return facts.reduce((total, each) => total + pick(each), 0);
}

function crossSlotFindings(sources: readonly ServerFacts[], findings: Finding[]): void {
  const calls = (name: string) => sum(sources, (facts) => facts.calls.get(name) ?? 0);
  const used = CROSS_SLOT.filter((name) => calls(name) > 0);
  if (used.length === 0) return;
  const list = used.map((name) => `${name.toUpperCase()} ${calls(name)}`).join(", ");
  findings.push(
    warning(
      "cross-slot commands",
      `the source has served commands with several keys: ${list}. On a cluster they are divided or copied key by key, so they are not atomic`,
      "Use hash tags for keys that belong together.",
    ),
  );
}
