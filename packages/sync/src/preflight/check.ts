/**
 * Examines both ends before anything is written, and reports problems with their solutions. The only
 * writes are those of the probe, to a key of its own.
 */
import { RopewayError } from "@ropeway/core";
import { INSTALLATION_ADVICE, INSTALLATION_QUERY, installationId } from "../installation-id.ts";
import type { SyncOptions } from "../options.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { checkFile } from "../source/file-source.ts";
import { taskName } from "../task-name.ts";
import type { Connection } from "../wire/connection.ts";
import { encodeCommand } from "../wire/encode.ts";
import { type Finding, fine, problem, warning } from "./finding.ts";
import { pairFindings } from "./pair.ts";
import type { ServerFacts } from "./server-facts.ts";
import { openServers, type Servers, type ServersPlan } from "./servers.ts";

/** The outcome of the examination. */
export interface PreflightReport {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

/** The ends to examine. */
export interface PreflightOptions extends Pick<SyncOptions, "from" | "to"> {
  /** @default 5 s */
  readonly connectTimeoutMs?: number;
  /** The backlog should cover an outage of this length. @default 60 s */
  readonly outageMs?: number;
}

const MIB = 1024 * 1024;

/** Examines source and target, including every master of a cluster. Never throws because of a finding. */
export async function check(options: PreflightOptions): Promise<PreflightReport> {
  const findings: Finding[] = [];
  const { from, to, connectTimeoutMs = 5_000 } = options;
  const task = taskName({ from, to });
  const opening = { task, connectTimeoutMs };
  await checkFile(from).catch((error: Error) => {
    findings.push(problem("source file", error.message, "Check the path of the file."));
  });
  await using source = await examine({ ...opening, end: "source", url: from }, findings);
  await using target = await examine({ ...opening, end: "target", url: to }, findings);
  for (const { facts, connection } of source.servers) {
    const own: Finding[] = [];
    sourceFindings(facts, options, own);
    await permissionFindings(connection, own);
    await installationFindings(connection, target, own);
    findings.push(...named(own, facts.where, source.clustered));
  }
  for (const { facts } of target.servers) {
    const own: Finding[] = [];
    targetFindings(facts, own);
    findings.push(...named(own, facts.where, target.clustered));
  }
  if (source.servers.length > 0 && target.servers.length > 0) {
    pairFindings(source, target, findings);
  }
  return { ok: findings.every(({ level }) => level !== "problem"), findings };
}

/** In a cluster, a finding names the master that it concerns. */
function named(findings: readonly Finding[], where: string, clustered: boolean): Finding[] {
  return findings.map((finding) =>
    clustered ? { ...finding, message: `${where}: ${finding.message}` } : finding,
  );
}

/** The reachable servers of an end. The others become findings. */
async function examine(plan: ServersPlan, findings: Finding[]): Promise<Servers> {
  const { end } = plan;
  const servers = await openServers(plan, (error) => {
    const advice =
      error instanceof RopewayError && error.code === "AUTH_FAILED"
        ? "Put the user and password into the URL, percent-encoded: redis://user:password@host:6379."
        : "Check the address, and that the server accepts connections from here.";
    findings.push(problem(`${end} connection`, (error as Error).message, advice));
  });
  for (const { facts } of servers.servers) {
    findings.push(fine(`${end} connection`, `${facts.server.title} at ${facts.where}`));
  }
  if (servers.refusal !== undefined) {
    const advice = "Connect to a master, with a user that may write.";
    findings.push(problem("target writes", servers.refusal, advice));
  }
  return servers;
}

function sourceFindings(facts: ServerFacts, options: PreflightOptions, findings: Finding[]): void {
  const { outageMs = 60_000 } = options;
  const size = Number(facts.config["repl-backlog-size"] ?? facts.number("repl_backlog_size") ?? 0);
  const needed = Math.ceil((facts.streamBytesPerS * outageMs) / 1_000);
  const rate = `${(facts.streamBytesPerS / MIB).toFixed(2)} MiB/s`;
  if (size > 0 && size < Math.max(needed, MIB + 1)) {
    const wanted = Math.max(64 * MIB, 2 ** Math.ceil(Math.log2(Math.max(1, needed))));
    const outage = `an outage of ${Math.round(outageMs / 1_000)} s`;
    const reason =
      size < needed
        ? `the source writes ${rate}: ${outage} needs a full synchronisation`
        : `the source writes ${rate} now: ${outage} with more than ${Math.floor((size * 1_000) / outageMs)} bytes/s needs a full synchronisation`;
    findings.push(
      warning(
        "source backlog",
        `repl-backlog-size is ${size} bytes and ${reason}`,
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

/** Whether PSYNC is allowed, checked without sending it, because a PSYNC would make the source fork. */
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

/** Whether the copy would replace the accounts and tasks of another installation. */
async function installationFindings(
  connection: Connection,
  { abilities }: Servers,
  findings: Finding[],
): Promise<void> {
  const [reply] = await connection.exchange(encodeCommand(INSTALLATION_QUERY), 1);
  const [own, other] = [installationId(reply), abilities?.installationId];
  if (own === undefined || other === undefined || own === other) return;
  const message = "source and target keep accounts and tasks of different Ropeway installations";
  findings.push(problem("installations", message, `To copy the rest, ${INSTALLATION_ADVICE}.`));
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
