/** The cluster of the settings: its store, its tasks, and what encrypts their passwords. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import {
  type AlertSink,
  Cluster,
  openStore,
  SecretBox,
  type Store,
  type StoreTls,
  StoreUnavailableError,
} from "@ropeway/cluster";
import {
  type Clock,
  InvalidOptionError,
  type Logger,
  localClock,
  type Redis,
  RedisClock,
  silentLogger,
} from "@ropeway/core";
import { type AuditEntry, AuditLog } from "@ropeway/portal/internal";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { fileText } from "../file-text.ts";
import { cliActor } from "../os-user.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { refusedSetting } from "../refused-option.ts";
import { readSecret, secretOf } from "../secret.ts";
import type { LoadedSettings } from "../settings/load.ts";

/** An opened cluster; closing it closes its connections. */
export interface OpenedCluster extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly store: Store;
  /** The clock of Redis, as in portals; the local one if the store is on etcd. */
  readonly clock: Clock;
  /** Does a change and notes it in the audit log, as made from the command line. */
  audited<T>(what: AuditedChange<T>, change: () => Promise<T>): Promise<T>;
}

/** A change by a command; T is its result. */
export interface AuditedChange<T> {
  /** The command, such as `user role ann operator`. */
  readonly action: string;
  /** What it changes, such as `user ann role operator`. */
  readonly subject: string;
  /** The same in full, if only the result says it: the id of what was created. */
  fullSubject?(result: T): string;
}

const KEY_FILE = "secret.key";
/** One of 4,096 ids: their ends are random. */
const TRIMS = /000$/;

/** Opens the store of the settings; with etcd, no Redis is needed. */
export async function openSettingsStore(
  settings: LoadedSettings,
  redis: Redis | undefined,
  logger: Logger = silentLogger,
): Promise<Store> {
  const { values } = settings;
  const tls = tlsOf(settings);
  return openStore({
    url: values["store.url"],
    prefix: values.prefix,
    redis,
    logger,
    ...(tls === undefined ? {} : { tls }),
  });
}

/** For a command: connects to what is needed, and closes it afterwards. */
export async function openCluster(context: Context): Promise<OpenedCluster> {
  const settings = context.settings();
  const onRedis = settings.values["store.url"] === "redis";
  const redis = onRedis ? await openRedis(await findRedis(context)) : undefined;
  try {
    const store = await openSettingsStore(settings, redis);
    const cluster = new Cluster(store, { secrets: secretBoxOf(settings) });
    const redisClock = redis && (await RedisClock.start(redis));
    const clock = redisClock ?? localClock;
    const log = new AuditLog(store, clock);
    return {
      cluster,
      store,
      clock,
      audited: (what, change) => audited(log, what, change),
      async [Symbol.asyncDispose]() {
        await redisClock?.close();
        await store.close();
        await redis?.close();
      },
    };
  } catch (error) {
    await redis?.close();
    throw error;
  }
}

/** The cluster of a portal that runs. */
export function servedCluster(
  store: Store,
  settings: LoadedSettings,
  options: { readonly alertSinks: readonly AlertSink[]; readonly logger: Logger },
): Cluster {
  return new Cluster(store, { secrets: secretBoxOf(settings), ...options });
}

/** The keys of the settings; else the one that `ropeway up` made in this home. */
export function secretBoxOf(settings: LoadedSettings): SecretBox {
  const given = secretOf(settings, "cluster.secretKey", "cluster.secretKeyFile");
  const file = join(settings.values.home, KEY_FILE);
  try {
    return new SecretBox(given ?? (existsSync(file) ? readSecret(file) : undefined));
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    if (given !== undefined) {
      const allowed = String(error.details.allowed);
      throw refusedSetting(settings, "cluster.secretKey", { value: '"***"', allowed });
    }
    throw new UsageError(`${file} does not hold a key: restore it, or remove it to get a new one`);
  }
}

/**
 * Makes the home's key, unless there is one. An empty file is none: a first start that was cut short may have
 * left it, and nothing can be encrypted with it. The caller has claimed the home.
 */
export async function ensureSecretKey(home: string): Promise<void> {
  const file = join(home, KEY_FILE);
  if (existsSync(file) && readSecret(file) !== "") return;
  const fresh = `${file}.new`;
  await writeFile(fresh, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  await rename(fresh, file);
}

/** Does a change and notes it, and how it ended. */
export async function audited<T>(
  log: Pick<AuditLog, "begin" | "complete" | "trim">,
  { action, subject, fullSubject }: AuditedChange<T>,
  change: () => Promise<T>,
): Promise<T> {
  const entry = await log.begin({
    actor: cliActor(),
    via: "cli",
    from: hostname(),
    action,
    path: action,
    subject,
    requestId: "",
    outcome: "started",
    status: 0,
  });
  // A command writes one entry, so chance decides which of them trims the log.
  if (TRIMS.test(entry.id)) await log.trim().catch(() => {});
  // The command reports how the change ended, also if the log cannot be written any more: the entry stays "started".
  const note = (final: AuditEntry, outcome: AuditEntry["outcome"]) =>
    log.complete(final, { outcome, status: 0 }).catch(() => {});
  let result: T;
  try {
    result = await change();
  } catch (error) {
    // A change whose response was lost may have been made.
    const unsure = error instanceof StoreUnavailableError && error.maybeApplied;
    if (!unsure) await note(entry, "failed");
    throw error;
  }
  await note({ ...entry, subject: fullSubject?.(result) ?? subject }, "done");
  return result;
}

function tlsOf({ values }: LoadedSettings): StoreTls | undefined {
  if (!values["store.url"].toLowerCase().startsWith("etcds:")) return undefined;
  const read = (file: string | undefined) => (file === undefined ? undefined : fileText(file));
  const [ca, cert, key] = (["store.caFile", "store.certFile", "store.keyFile"] as const).map(
    (name) => read(values[name]),
  );
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
}
