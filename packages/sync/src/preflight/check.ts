/**
 * Looks at both ends before anything is written, and says what would go wrong and what to do. The only
 * writes are those of the probe, on a key of our own.
 */
import { parseEndpoint, RopewayError } from "@ropeway/core";
import type { SyncOptions } from "../options.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { type Abilities, probe } from "../sink/abilities.ts";
import { taskName } from "../task-name.ts";
import type { Connection } from "../wire/connection.ts";
import { encodeCommand } from "../wire/encode.ts";
import { Locator } from "../wire/locator.ts";
import { askServer, type ServerFacts } from "./server-facts.ts";

/** One thing that was looked at. */
export interface Finding {
  /** What it is about, such as `target memory`. */
  readonly what: string;
  /** problem: the task would fail or lose data; warning: it may; ok: fine. */
  readonly level: "ok" | "warning" | "problem";
  readonly message: string;
  /** What to do; empty if it is fine. */
  readonly advice: string;
}

/** The outcome of the examination. */
export interface PreflightReport {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

/** What is examined. */
export interface PreflightOptions extends Pick<SyncOptions, "from" | "to"> {
  /** @default 5 s */
  readonly connectTimeoutMs?: number;
  /** An outage this long should be survived by the backlog. @default 60 s */
  readonly outageMs?: number;
}

const MIB = 1024 * 1024;
const CLOCK_MS = 500;
/** Commands that a cluster refuses when their keys are on different slots. */
const CROSS_SLOT = [
  ..."mset msetnx del unlink rename renamenx smove lmove rpoplpush copy".split(" "),
  ..."sunionstore sinterstore sdiffstore zunionstore zinterstore bitop pfmerge".split(" "),
  ..."eval evalsha fcall exec".split(" "),
];

/** Examines source and target. Never throws because of what it finds. */
export async function check(options: PreflightOptions): Promise<PreflightReport> {
  const findings: Finding[] = [];
  const source = await examine("source", options, findings);
  const target = await examine("target", options, findings);
  if (source !== undefined) sourceFindings(source.facts, options, findings);
  if (source !== undefined) await permissionFindings(source.connection, findings);
  if (target !== undefined) targetFindings(target.facts, findings);
  if (source !== undefined && target !== undefined) {
    pairFindings({ source: source.facts, target, to: options.to }, findings);
  }
  source?.connection.destroy();
  target?.connection.destroy();
  return { ok: findings.every(({ level }) => level !== "problem"), findings };
}

interface Pair {
  readonly source: ServerFacts;
  readonly target: Examined;
  readonly to: string;
}

interface Examined {
  readonly connection: Connection;
  readonly facts: ServerFacts;
  readonly abilities: Abilities | undefined;
}

async function examine(
  end: "source" | "target",
  options: PreflightOptions,
  findings: Finding[],
): Promise<Examined | undefined> {
  const { from, to, connectTimeoutMs = 5_000 } = options;
  const url = end === "source" ? from : to;
  if (!/^[\w+-]+:\/\//.test(url) || /^https?:/.test(url)) return undefined;
  const endpoint = parseEndpoint(url, end === "source" ? "from" : "to");
  const locator = new Locator(endpoint, {
    connectTimeoutMs,
    name: "ropeway-check",
    master: end === "target",
  });
  try {
    const connection = await locator.connect();
    const facts = await askServer(connection);
    findings.push(fine(`${end} connection`, `${facts.server.title} at ${connection.where}`));
    let abilities: Abilities | undefined;
    if (end === "target") {
      try {
        abilities = await probe(connection, taskName({ from, to }));
      } catch (error) {
        const message = (error as Error).message;
        findings.push(
          problem("target writes", message, "Connect to a master, with a user that may write."),
        );
      }
    }
    return { connection, facts, abilities };
  } catch (error) {
    const advice =
      error instanceof RopewayError && error.code === "AUTH_FAILED"
        ? "Put the user and password into the URL, percent-encoded: redis://user:password@host:6379."
        : "Check the address, and that the server accepts connections from here.";
    findings.push(problem(`${end} connection`, (error as Error).message, advice));
    return undefined;
  }
}

function sourceFindings(facts: ServerFacts, options: PreflightOptions, findings: Finding[]): void {
  const { outageMs = 60_000 } = options;
  const size = Number(facts.config["repl-backlog-size"] ?? facts.number("repl_backlog_size") ?? 0);
  const needed = Math.ceil((facts.streamBytesPerS * outageMs) / 1_000);
  const rate = `${(facts.streamBytesPerS / MIB).toFixed(2)} MiB/s`;
  if (size > 0 && size < Math.max(needed, MIB + 1)) {
    const wanted = Math.max(64 * MIB, 2 ** Math.ceil(Math.log2(Math.max(1, needed))));
    findings.push(
      warning(
        "source backlog",
        `repl-backlog-size is ${size} bytes and the source writes ${rate}: an outage of ${Math.round(outageMs / 1_000)} s may need a full synchronisation`,
        `CONFIG SET repl-backlog-size ${wanted}`,
      ),
    );
  } else if (size > 0) findings.push(fine("source backlog", `${size} bytes for ${rate}`));
  const limits = facts.config["client-output-buffer-limit"];
  const replica = limits && /(?:slave|replica) (\d+) (\d+) (\d+)/.exec(limits);
  if (replica && replica[1] !== "0" && Number(replica[1]) < 64 * MIB) {
    findings.push(
      warning(
        "source output buffer",
        `the limit for replicas is ${replica[1]} bytes`,
        "CONFIG SET client-output-buffer-limit 'replica 268435456 67108864 60'",
      ),
    );
  }
  if (facts.info("loading") === "1") {
    findings.push(
      problem("source state", "the source is loading its data", "Wait until it is ready."),
    );
  }
  if (facts.info("master_link_status") === "down") {
    findings.push(
      problem(
        "source state",
        "the source is a replica without its master",
        "Use its master, or repair the replica.",
      ),
    );
  }
}

/** Whether PSYNC is allowed, found without asking for it: a PSYNC would make the source fork. */
async function permissionFindings(connection: Connection, findings: Finding[]): Promise<void> {
  const ask = async (...argv: string[]) => (await connection.exchange(encodeCommand(argv), 1))[0];
  const who = await ask("ACL", "WHOAMI");
  if (who === undefined || who instanceof ErrorReply) return; // before Redis 6
  for (const command of [
    ["PSYNC", "?", "-1"],
    ["REPLCONF", "ACK", "0"],
  ]) {
    const reply = await ask("ACL", "DRYRUN", String(who), ...command);
    if (reply instanceof ErrorReply || String(reply) === "OK") continue;
    findings.push(
      problem(
        "source permissions",
        String(reply),
        `ACL SETUSER ${String(who)} +psync +replconf +ping +info`,
      ),
    );
  }
}

function targetFindings(facts: ServerFacts, findings: Finding[]): void {
  const policy = facts.config["maxmemory-policy"] ?? facts.info("maxmemory_policy");
  const limit = Number(facts.config.maxmemory ?? facts.number("maxmemory") ?? 0);
  if (limit > 0 && policy !== undefined && policy !== "noeviction") {
    findings.push(
      problem(
        "target eviction",
        `maxmemory-policy is ${policy}: when memory is short, the target drops keys without a word`,
        "CONFIG SET maxmemory-policy noeviction, at least during the migration",
      ),
    );
  }
  if (facts.info("role") === "slave") {
    findings.push(
      problem("target role", "the target is a replica, which refuses writes", "Use its master."),
    );
  }
  const total = [...facts.keys.values()].reduce((sum, keys) => sum + keys, 0);
  if (total > 0) {
    findings.push(
      warning(
        "target data",
        `the target has ${total} keys already`,
        'Keys of the same name are overwritten (existing: "keep" or "fail" changes that), and others stay.',
      ),
    );
  }
}

function pairFindings(pair: Pair, findings: Finding[]): void {
  const { source, to } = pair;
  const { facts: target, abilities } = pair.target;
  const used = source.number("used_memory_dataset") ?? source.number("used_memory") ?? 0;
  const limit = Number(target.config.maxmemory ?? target.number("maxmemory") ?? 0);
  const free = limit - (target.number("used_memory") ?? 0);
  if (limit > 0 && free < used) {
    findings.push(
      problem(
        "target memory",
        `the source's data takes about ${used} bytes, but the target has ${free} left of maxmemory`,
        `CONFIG SET maxmemory ${Math.ceil((used + (target.number("used_memory") ?? 0)) * 1.3)}`,
      ),
    );
  } else findings.push(fine("target memory", limit === 0 ? "no maxmemory" : `${free} bytes left`));
  const missing = source.modules.filter((name) => !target.modules.includes(name));
  if (missing.length > 0) {
    findings.push(
      problem(
        "modules",
        `the target lacks ${missing.join(", ")}`,
        "Load them at the target, or filter their keys out.",
      ),
    );
  }
  const skew = Math.abs(source.clockMs - target.clockMs);
  if (skew > CLOCK_MS) {
    findings.push(
      warning(
        "clocks",
        `the servers' clocks differ by ${skew} ms, so keys expire at other moments`,
        "Synchronise the clocks, or use ttlShiftMs.",
      ),
    );
  }
  const highest = Math.max(0, ...source.keys.keys());
  const cluster = parseEndpoint(to, "to").topology === "cluster";
  if (cluster && highest > 0) {
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
  if (abilities !== undefined && abilities.rdbVersion === 0) {
    findings.push(
      warning(
        "target RESTORE",
        "the target refuses RESTORE; values are written with commands, which is slower",
        "Allow RESTORE if you can.",
      ),
    );
  }
  if (cluster) crossSlotFindings(source, findings);
}

function crossSlotFindings(source: ServerFacts, findings: Finding[]): void {
  const used = CROSS_SLOT.filter((name) => (source.calls.get(name) ?? 0) > 0);
  if (used.length === 0) return;
  const list = used.map((name) => `${name.toUpperCase()} ${source.calls.get(name)}`).join(", ");
  findings.push(
    warning(
      "cross-slot commands",
      `the source has served commands with several keys: ${list}. On a cluster they are divided or copied key by key, so they are not atomic`,
      "Use hash tags for keys that belong together.",
    ),
  );
}

function fine(what: string, message: string): Finding {
  return { what, level: "ok", message, advice: "" };
}

function warning(what: string, message: string, advice: string): Finding {
  return { what, level: "warning", message, advice };
}

function problem(what: string, message: string, advice: string): Finding {
  return { what, level: "problem", message, advice };
}
