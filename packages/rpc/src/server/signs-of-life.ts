/** The values that a worker writes to its works keys and its group key with each heartbeat. */
import { hostname } from "node:os";
import type { ServerOptions } from "../options.ts";
import type { SignOfLife } from "../store/registry-store.ts";
import type { Dialect } from "../wire/dialect.ts";
import type { ServedService } from "./served-service.ts";

/** The identity of a worker. */
export interface WorkerIdentity {
  readonly node: string;
  readonly controlList: string;
  readonly options: Required<ServerOptions>;
  /** The number of running calls. */
  running(): number;
}

/** "rt" responds into reply lists, "st" supports streams, "dl" reads deadlines. */
const CAPABILITIES = ["rt", "st", "dl"];

/** One value per service, and one for the session group. */
export function signsOfLife(
  dialect: Dialect,
  services: readonly ServedService[],
  worker: WorkerIdentity,
): SignOfLife[] {
  const { node, controlList, options, running } = worker;
  const { group, version, concurrency } = options;
  const constant = {
    node,
    ctl: controlList,
    version,
    host: hostname(),
    pid: process.pid,
    since: Date.now(),
    concurrency,
  };
  const signs: SignOfLife[] = services.map(({ name, methods }) => ({
    index: dialect.keys.worksIndex(name),
    key: dialect.keys.works(name, node),
    value: () => {
      const stats = [...methods.values()].map((method) => [method.name, method.stats.snapshot()]);
      const told = { ...constant, running: running(), caps: CAPABILITIES, group };
      return JSON.stringify({ ...told, methods: Object.fromEntries(stats) });
    },
  }));
  if (group === undefined || dialect.sessions === undefined) return signs;
  const names = services.map(({ name }) => name);
  signs.push({
    index: dialect.sessions.groupIndex(group),
    key: dialect.sessions.group(group, node),
    value: () => JSON.stringify({ ...constant, running: running(), services: names }),
  });
  return signs;
}
