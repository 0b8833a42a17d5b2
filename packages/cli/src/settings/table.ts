/**
 * Every setting there is. All else is made from this table: the keys of ropeway.toml, the names in the
 * environment, the flags, ropeway.example.toml and docs/reference/settings.md. A new setting is one
 * line in `Settings` and one entry in `table`.
 */
import {
  countKind,
  durationKind,
  flagKind,
  type Kind,
  listKind,
  pathKind,
  portKind,
  redisUrlKind,
  secretKind,
  storeUrlKind,
  textKind,
  webhookKind,
  wordKind,
} from "./kind.ts";
import { type MergeSettings, mergeSettings } from "./merge-settings.ts";

/** The settings in force; a key's first part is its section in the file. */
export interface Settings extends MergeSettings {
  readonly home: string;
  readonly prefix: string;
  readonly "redis.url": string | undefined;
  readonly "redis.passwordFile": string | undefined;
  readonly "redis.caFile": string | undefined;
  readonly "redis.certFile": string | undefined;
  readonly "redis.keyFile": string | undefined;
  readonly "portal.host": string;
  readonly "portal.port": number;
  readonly "portal.hosts": readonly string[];
  readonly "portal.trustProxy": readonly string[];
  readonly "portal.publicMetrics": boolean;
  readonly "portal.adminPassword": string | undefined;
  readonly "portal.adminPasswordFile": string | undefined;
  readonly "store.url": string;
  readonly "store.caFile": string | undefined;
  readonly "store.certFile": string | undefined;
  readonly "store.keyFile": string | undefined;
  readonly "cluster.id": string;
  readonly "cluster.secretKey": string | undefined;
  readonly "cluster.secretKeyFile": string | undefined;
  readonly "node.id": string | undefined;
  readonly "node.host": string;
  readonly "node.port": number;
  readonly "node.leaseMs": number;
  readonly "node.maxTasks": number;
  readonly "inspect.everyMs": number;
  readonly "inspect.probes": number;
  readonly "alerts.webhook": string | undefined;
  readonly "up.redisServer": string | undefined;
  readonly "up.programs": string | undefined;
  readonly "up.redisPort": number | undefined;
  readonly "up.appendfsync": "always" | "everysec";
  readonly "log.level": LogLevel;
}

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type SettingKey = keyof Settings;

/** One setting: its kind, its default and its meaning. */
export interface SettingSpec<T> {
  readonly kind: Kind<Exclude<T, undefined>>;
  readonly default: T;
  /** One line; explains the default if that is not obvious. */
  readonly doc: string;
  /** A fixed name in the environment. @default ROPEWAY_ and the key, such as ROPEWAY_PORTAL_HOST */
  readonly env?: string;
  /** A fixed name of the flag. @default the key, such as --portal-host; secrets have none */
  readonly flag?: string;
  /** What to write in the example file where there is no default. */
  readonly example?: Exclude<T, undefined>;
  /** For a secret: where else it may come from. */
  readonly orFile?: SettingKey;
  /** The key it had before, which keeps working in the file, the environment and as a flag. */
  readonly formerly?: string;
  /** Its former name in the environment. @default made from the former key */
  readonly formerEnv?: string;
  /** Its former flag. @default made from the former key */
  readonly formerFlag?: string;
}

export const table: { readonly [K in SettingKey]: SettingSpec<Settings[K]> } = {
  home: {
    kind: pathKind,
    default: ".ropeway",
    doc: "The folder for the data, logs and programs of `ropeway up`.",
  },
  prefix: {
    kind: textKind,
    default: "ropeway",
    doc: "The prefix of every key in Redis. Two installations on one Redis need different prefixes.",
  },
  "redis.url": {
    kind: redisUrlKind,
    default: undefined,
    example: "redis://127.0.0.1:6379",
    env: "REDIS_URL",
    orFile: "redis.passwordFile",
    doc: "The URL of the Redis to use. If it is not set, `ropeway up` starts a Redis of its own. A URL with a password is accepted from the environment only.",
  },
  "redis.passwordFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/redis-password",
    doc: "A file with the password of redis.url, if the URL has none.",
  },
  "redis.caFile": {
    kind: pathKind,
    default: undefined,
    example: "/etc/ropeway/redis-ca.pem",
    doc: "A file with the CA certificates, in PEM, for a rediss:// URL. Defaults to the CAs that Node trusts.",
  },
  "redis.certFile": {
    kind: pathKind,
    default: undefined,
    example: "/etc/ropeway/redis-client.pem",
    doc: "A file with the client certificate, in PEM, for a Redis with tls-auth-clients. Needs redis.keyFile.",
  },
  "redis.keyFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/redis-client-key.pem",
    doc: "A file with the key of redis.certFile, in PEM and without a passphrase.",
  },
  "portal.host": {
    kind: textKind,
    default: "127.0.0.1",
    flag: "--host",
    doc: "The address the portal listens on. An address other than loopback opens the portal to other machines.",
  },
  "portal.port": {
    kind: portKind(0),
    default: 7480,
    env: "ROPEWAY_PORT",
    flag: "--port",
    doc: "The port of the portal. 0 chooses a free port. If it is not set and 7480 is in use, `ropeway up` chooses another port.",
  },
  "portal.hosts": {
    kind: listKind,
    default: [],
    doc: "Host names by which clients reach the portal and the merge queue, such as portal.example.com. Loopback names and IP addresses are always served, other names are refused (DNS rebinding); * allows every name.",
  },
  "portal.trustProxy": {
    kind: listKind,
    default: [],
    doc: "Addresses and networks of trusted proxies: their X-Forwarded-For and X-Forwarded-Proto headers are used.",
  },
  "portal.publicMetrics": {
    kind: flagKind,
    default: true,
    doc: "Whether /metrics is public. If not, it needs the permission metrics:view.",
  },
  "portal.adminPassword": {
    kind: secretKind,
    default: undefined,
    env: "ROPEWAY_ADMIN_PASSWORD",
    orFile: "portal.adminPasswordFile",
    doc: "The password of the account `admin`, which the first start creates; at least 8 characters. If it is not set, a random password is generated and printed once.",
  },
  "portal.adminPasswordFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/admin-password",
    doc: "A file with portal.adminPassword.",
  },
  ...mergeSettings,
  "store.url": {
    kind: storeUrlKind,
    default: "redis",
    env: "ROPEWAY_STORE",
    flag: "--store",
    doc: "Where the cluster keeps its state: redis (the Redis of redis.url) or etcd://host:port[,host:port], with etcds:// for TLS. A URL with a password is accepted from the environment only.",
  },
  "store.caFile": {
    kind: pathKind,
    default: undefined,
    example: "/etc/ropeway/etcd-ca.pem",
    doc: "A PEM file with the certificate authorities for etcds:// URLs. Defaults to the authorities that Node trusts.",
  },
  "store.certFile": {
    kind: pathKind,
    default: undefined,
    example: "/etc/ropeway/etcd-client.pem",
    doc: "A file with the client certificate, in PEM, for an etcd that requires one. Needs store.keyFile.",
  },
  "store.keyFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/etcd-client-key.pem",
    doc: "A file with the key of store.certFile, in PEM and without a passphrase.",
  },
  "cluster.id": {
    kind: textKind,
    default: "cluster_local",
    doc: "The name of the cluster, shown by the portal and in logs.",
  },
  "cluster.secretKey": {
    kind: secretKind,
    default: undefined,
    env: "ROPEWAY_SECRET_KEY",
    orFile: "cluster.secretKeyFile",
    doc: "The key that encrypts passwords of tasks in the store: 32 random bytes in base64, the same on every portal and node. With several keys, separated by commas, the first encrypts and all decrypt. If it is not set, `ropeway up` generates a key in its home.",
  },
  "cluster.secretKeyFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/ropeway-secret-key",
    doc: "A file with cluster.secretKey.",
  },
  "node.id": {
    kind: textKind,
    default: undefined,
    example: "node_a",
    env: "ROPEWAY_NODE_ID",
    flag: "--id",
    doc: "The id of this node, unique in the cluster. `ropeway node` needs one; `ropeway up` uses node_local.",
  },
  "node.host": {
    kind: textKind,
    default: "127.0.0.1",
    doc: "The address of this machine that the node serves its health check on and that portals reach it by.",
  },
  "node.port": {
    kind: portKind(0),
    default: 0,
    doc: "The port of the node's health check. 0 chooses a free port.",
  },
  "node.leaseMs": {
    kind: durationKind(2_000, 600_000),
    default: 8_000,
    doc: "How long a node counts as alive after its last renewal. A node that cannot renew its lease stops its tasks before this time is over.",
  },
  "node.maxTasks": {
    kind: countKind(1, 100_000),
    default: 1_000,
    doc: "The maximum number of tasks that the node runs.",
  },
  "inspect.everyMs": {
    kind: durationKind(100, 600_000),
    default: 2_000,
    doc: "How often the nodes are inspected. In each round one of the portals does it.",
  },
  "inspect.probes": {
    kind: countKind(1, 20),
    default: 3,
    doc: "How many health checks of a node must fail before it counts as offline.",
  },
  "alerts.webhook": {
    kind: webhookKind,
    default: undefined,
    example: "https://example.com/alerts",
    doc: "A URL that alerts are delivered to, through the merge queue. If it is not set, alerts are only logged and shown by the portal.",
  },
  "up.redisServer": {
    kind: pathKind,
    default: undefined,
    example: "/usr/bin/redis-server",
    env: "ROPEWAY_REDIS_SERVER",
    flag: "--redis-server",
    doc: "The program that `ropeway up` starts as its Redis. If it is not set, redis-server or valkey-server from PATH, or one that is downloaded.",
  },
  "up.programs": {
    kind: pathKind,
    default: undefined,
    example: ".ropeway/programs",
    env: "ROPEWAY_PROGRAMS",
    flag: "--programs",
    doc: "The folder for downloaded programs. Defaults to the folder `programs` in the home.",
  },
  "up.redisPort": {
    kind: portKind(1),
    default: undefined,
    example: 6380,
    flag: "--redis-port",
    doc: "The port of the Redis that `ropeway up` starts. If it is not set, a free port is chosen and kept.",
  },
  "up.appendfsync": {
    kind: wordKind("always", "everysec"),
    default: "always",
    flag: "--appendfsync",
    doc: "When that Redis syncs its append-only file to disk. always: before each reply. everysec: faster, but a power failure can lose the last second.",
  },
  "log.level": {
    kind: wordKind("debug", "info", "warn", "error", "silent"),
    default: "info",
    doc: "The log level: debug, info, warn, error or silent. `ropeway up` logs to the folder `logs` in its home, `ropeway portal` to standard error.",
  },
};

export const settingKeys: readonly SettingKey[] = Object.keys(table) as SettingKey[];

/** The settings that say which Redis a command talks to, and how. */
export const redisKeys: readonly SettingKey[] = [
  "home",
  ...settingKeys.filter((key) => key.startsWith("redis.")),
];

/** The settings that say where the cluster's state is, and how its secrets are read. */
export const clusterKeys: readonly SettingKey[] = [
  ...redisKeys,
  "prefix",
  ...settingKeys.filter((key) => key.startsWith("store.")),
  "cluster.secretKey",
  "cluster.secretKeyFile",
];

/** The setting of a key, whatever its type. */
export function specOf(key: SettingKey): SettingSpec<unknown> {
  return table[key] as SettingSpec<unknown>;
}

/** The setting's name in the environment. */
export function variableOf(key: SettingKey): string {
  return table[key].env ?? `ROPEWAY_${words(key).join("_").toUpperCase()}`;
}

/** The setting's flag; a secret has none, since anyone on the machine can read a command line. */
export function flagOf(key: SettingKey): string | undefined {
  const { kind, flag } = specOf(key);
  if (kind === secretKind) return undefined;
  return flag ?? `--${words(key).join("-")}`;
}

/** The setting whose key this is or was. */
export function currentKey(key: string): SettingKey | undefined {
  return settingKeys.find((known) => known === key || table[known].formerly === key);
}

/** The setting's former name in the environment. */
export function formerVariableOf(key: SettingKey): string | undefined {
  const { formerly, formerEnv } = table[key];
  if (formerly === undefined) return undefined;
  return formerEnv ?? `ROPEWAY_${words(formerly).join("_").toUpperCase()}`;
}

/** The setting's former flag. */
export function formerFlagOf(key: SettingKey): string | undefined {
  const { formerly, formerFlag } = table[key];
  if (formerly === undefined || flagOf(key) === undefined) return undefined;
  return formerFlag ?? `--${words(formerly).join("-")}`;
}

/** "portal.adminPassword" is the section "portal" and the name "adminPassword". */
export function partsOf(key: string): { readonly section: string; readonly name: string } {
  const dot = key.indexOf(".");
  return dot < 0
    ? { section: "", name: key }
    : { section: key.slice(0, dot), name: key.slice(dot + 1) };
}

function words(key: string): string[] {
  return key
    .replace(/([A-Z])/g, ".$1")
    .toLowerCase()
    .split(".");
}
