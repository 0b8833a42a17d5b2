/** Tasks of type sync: a SyncTask of @ropeway/sync, named after the task so that it resumes anywhere. */
import { InvalidArgumentError, InvalidOptionError, RopewayError } from "@ropeway/core";
import { unitPrefix } from "@ropeway/core/internal";
import { type SyncOptions, type SyncProgress, SyncTask } from "@ropeway/sync";
import type { Run, Runner, RunPhase } from "../runner.ts";
import { type Json, splitSecrets } from "../secrets.ts";
import type { TaskProgress } from "../tasks/task.ts";

const PHASES: readonly string[] = ["STARTING", "RDBRUNNING", "COMMANDRUNNING", "FAILOVER"];
/** Options that the cluster sets itself, or that cannot be JSON. */
const RESERVED = ["name", "logger", "transform", "restart", "epoch", "progressMs", "keepOff"];

/** How the runner is made. */
export interface SyncRunnerOptions {
  /** What the keys of the installation begin with. @default "ropeway" */
  readonly prefix?: string;
}

/** Makes the runner. */
export function syncRunner({ prefix = "ropeway" }: SyncRunnerOptions = {}): Runner {
  const marks = [...new Set(["ropeway", prefix])].flatMap(marksOf);
  return {
    type: "sync",
    validate(config, { local } = { local: false }) {
      const options = optionsOf(config);
      if (!local) refuseFiles(options);
      try {
        new SyncTask(options); // does no I/O, only checks the options
      } catch (error) {
        throw named(error, config);
      }
      return config;
    },
    run: (task) => run(task, task.local ? [] : marks),
  };
}

/**
 * The keys of which the servers of an installation have one: those of a store on Redis, alone or as a cluster, and
 * those with the sessions of its portals, which are on Redis also if the store is etcd.
 */
function marksOf(prefix: string): string[] {
  const store = `${prefix}:store`;
  return [`${store}:@state`, `{${store}}:@state`, `${unitPrefix(prefix, "portal")}:mark`];
}

async function run(task: Run, keepOff: readonly string[]): Promise<void> {
  const options = optionsOf(task.config);
  if (!task.local) refuseFiles(options);
  const sync = new SyncTask({
    ...options,
    keepOff,
    name: task.taskId,
    epoch: task.epoch,
    restart: task.afresh,
    logger: task.logger,
  });
  const stop = () => void sync.close();
  sync.on("status", (status) => {
    if (PHASES.includes(status)) task.phase(status as RunPhase);
  });
  sync.on("progress", (progress) => report(task, progress));
  sync.on("discarded", ({ key, command, error }) => {
    task.discarded({ key, command: `${command}: ${error}`, type: "" });
  });
  sync.on("bigKey", ({ key, type, bytes, elements, durationMs }) => {
    const command = `written in parts: ${bytes} bytes, ${elements} elements, ${durationMs} ms`;
    task.bigKey({ key, command, type });
  });
  sync.on("error", (error) => task.logger.warn({ err: error, taskId: task.taskId }, "sync error"));
  task.signal.addEventListener("abort", stop, { once: true });
  try {
    if (task.signal.aborted) return;
    await sync.start();
    report(task, await sync.finished);
  } finally {
    task.signal.removeEventListener("abort", stop);
    await sync.close();
  }
}

function report(task: Run, progress: SyncProgress): void {
  const flat: Record<string, string | number | null> = {};
  for (const [name, value] of Object.entries(progress)) {
    if (typeof value === "number" || typeof value === "string") flat[name] = value;
    else if (value === undefined) flat[name] = null;
  }
  task.progress({ ...flat, bigKeys: progress.reasons.big ?? 0 } as TaskProgress);
  const { positions } = progress;
  if (positions.length === 0) return; // it does not follow its source yet
  task.offset({
    replId: positions.map(({ replid }) => replid).join(","),
    replOffset: positions.map(({ offset }) => offset).join(","),
    db: positions[0]?.db ?? 0,
  });
}

function optionsOf(config: Json): SyncOptions {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw new InvalidArgumentError("config", config, "an object with from and to");
  }
  const fields = config as Record<string, Json>;
  for (const name of ["from", "to"]) {
    const value = fields[name];
    // A password in anything else would not be recognised, see secrets.ts.
    if (typeof value !== "string" || !/^(file:|[a-z+-]+:\/\/)/i.test(value)) {
      throw new InvalidArgumentError(
        `config.${name}`,
        value === undefined ? undefined : "***",
        "a URL",
      );
    }
  }
  for (const name of RESERVED) {
    if (Object.hasOwn(fields, name)) {
      throw new InvalidArgumentError(`config.${name}`, "***", "left out: the cluster decides it");
    }
  }
  return fields as unknown as SyncOptions;
}

/**
 * Only admins may use what a node can read besides Redis: the installation's own Redis keeps its data in
 * files, and errors about HTTP addresses that only the node can reach would reveal what is there.
 */
function refuseFiles(options: SyncOptions): void {
  const { from, to, spoolDir } = options;
  for (const [name, value] of Object.entries({ from, to, spoolDir })) {
    if (value === undefined || (name !== "spoolDir" && !/^(file|https?):/i.test(value))) continue;
    const clean = splitSecrets({ [name]: value }).config as Record<string, Json>;
    const allowed = "left to tasks of an admin if it names a file, a folder or an HTTP address";
    throw new InvalidArgumentError(`config.${name}`, clean[name], allowed);
  }
}

/** An error that names the field as the caller wrote it, and never repeats a password. */
function named(error: unknown, config: Json): unknown {
  if (!(error instanceof RopewayError)) return error;
  const { option, allowed } = error.details as { option?: string; allowed?: string };
  if (!(error instanceof InvalidOptionError) || option === undefined) {
    return new InvalidArgumentError("config", "***", error.message);
  }
  const clean = splitSecrets(config).config as Record<string, Json>;
  const field = option === "url" ? badAddress(config as Record<string, Json>) : option;
  return new InvalidArgumentError(`config.${field}`, clean[field], allowed ?? "valid");
}

/** Which of the two addresses is invalid: the one that is refused also together with a valid one. */
function badAddress({ from }: Record<string, Json>): "from" | "to" {
  try {
    new SyncTask({ from: String(from), to: "redis://127.0.0.1" });
    return "to";
  } catch {
    return "from";
  }
}
