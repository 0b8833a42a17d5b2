/** The checks of a Redis server, and what to change if one fails. */
import { type Finding, fail, ok, warn } from "./finding.ts";
import type { ServerFacts } from "./server-facts.ts";

type Check = (facts: ServerFacts) => Finding;

const SLOW_MS = 10;
const CLOCK_MS = 1_000;
const FULL = 0.9;

/** All checks of one server, in the order in which they are printed. */
export function checkServer(facts: ServerFacts): Finding[] {
  if (facts.info.size === 0) {
    const advice = "allow this user the command INFO, so that the rest can be checked";
    return [warn("info", "the server refuses INFO", advice), clock(facts), latency(facts)];
  }
  return [role, persistence, eviction, memory, clock, latency].map((check) => check(facts));
}

const role: Check = ({ info, topology }) => {
  const name = "role";
  const replicas = `${info.get("connected_slaves") ?? "0"} replicas`;
  if (info.get("role") !== "slave") return ok(name, `${topology}, master with ${replicas}`);
  const master = `${info.get("master_host")}:${info.get("master_port")}`;
  return fail(name, `a replica of ${master}`, "name the master in redis.url, or use Sentinel");
};

const persistence: Check = ({ info, config }) => {
  const name = "persistence";
  const failed = [
    ["aof_last_write_status", "the last write of the append-only file failed"],
    ["rdb_last_bgsave_status", "the last snapshot failed"],
  ].find(([field]) => info.get(field ?? "") === "err");
  if (failed !== undefined)
    return fail(name, failed[1] ?? "", "look for a full disk or wrong rights");
  const sync = config.get("appendfsync");
  if (info.get("aof_enabled") === "1") {
    return ok(name, `append-only file${sync === undefined ? "" : `, appendfsync ${sync}`}`);
  }
  const advice = "CONFIG SET appendonly yes, then CONFIG REWRITE";
  const save = config.get("save");
  if (save === undefined) return warn(name, "no append-only file", advice);
  return save === ""
    ? fail(name, "none: a restart loses everything", advice)
    : warn(name, "snapshots only: a crash loses what came after the last", advice);
};

const eviction: Check = ({ info }) => {
  const name = "eviction";
  const policy = info.get("maxmemory_policy") ?? "unknown";
  if (policy === "noeviction") return ok(name, policy);
  const advice = "CONFIG SET maxmemory-policy noeviction: Redis must not drop jobs and items";
  return info.get("maxmemory") === "0"
    ? warn(name, `${policy}, but no maxmemory`, advice)
    : fail(name, policy, advice);
};

const memory: Check = ({ info }) => {
  const name = "memory";
  const limit = Number(info.get("maxmemory")) || Number(info.get("total_system_memory"));
  const used = Number(info.get("used_memory"));
  const found = `${mebibytes(used)} of ${mebibytes(limit)} MiB used`;
  if (!(limit > 0) || used < limit * FULL) return ok(name, found);
  return warn(name, found, "give it more memory: a full Redis refuses writes");
};

const clock: Check = ({ clockAheadMs, clockErrorMs }) => {
  const name = "clock";
  const found = `${Math.abs(Math.round(clockAheadMs))} ms ${clockAheadMs < 0 ? "behind" : "ahead of"} this machine`;
  if (Math.abs(clockAheadMs) <= CLOCK_MS + clockErrorMs) return ok(name, found);
  return warn(
    name,
    found,
    "run NTP on both: Ropeway uses Redis time, but people and logs use ours",
  );
};

const latency: Check = ({ roundTripMs }) => {
  const name = "latency";
  const found = `${roundTripMs.toFixed(2)} ms per round trip`;
  if (roundTripMs <= SLOW_MS) return ok(name, found);
  return warn(name, found, "run close to Redis: every operation takes at least one round trip");
};

function mebibytes(bytes: number): string {
  return (bytes / 1_048_576).toFixed(0);
}
