import { join } from "node:path";
import type { Certificate } from "./certificate.ts";
import type { OtherVersion } from "./other-server.ts";

/** Options of `startRedis`. */
export interface RedisOptions {
  /** Lines of redis.conf, such as `["maxmemory 1mb"]`, that override ours. Do not change loglevel, because `start()` waits for a line of the log. */
  readonly config?: readonly string[];
  /** A fixed port, which must be free. @default a free one */
  readonly port?: number;
  /** Listen on a Unix socket only. @default false */
  readonly socket?: boolean;
  /** Keep an append-only file, synced before each reply, so that kill9() loses nothing. @default false */
  readonly appendonly?: boolean;
  /** requirepass. @default none */
  readonly password?: string;
  /** Accept TLS only, with a certificate created for this server. @default false */
  readonly tls?: boolean;
  /** A release other than the installed one, from `otherServer`. */
  readonly version?: Extract<OtherVersion, `redis-${string}` | `valkey-${string}`>;
  /** Run as a Sentinel. @default false */
  readonly sentinel?: boolean;
}

/** Complete options, from which one redis.conf is written. */
export interface RedisPlan extends RedisOptions {
  readonly command: readonly string[];
  readonly dir: string;
  readonly port: number;
  readonly certificate: Certificate | undefined;
}

/** Loopback only, so that no test server is reachable from other machines. */
export const HOST = "127.0.0.1";

/** The path of the Unix socket, if the server listens on one. */
export function socketPathOf({ socket, dir }: RedisPlan): string | undefined {
  return socket ? join(dir, "redis.sock") : undefined;
}

/** The content of its redis.conf. Later lines override earlier ones, so the caller's come last. */
export function redisConf(plan: RedisPlan): string {
  const { dir, port, password, certificate, appendonly, sentinel, config = [] } = plan;
  const socketPath = socketPathOf(plan);
  const lines = ["daemonize no", 'logfile ""', `dir "${dir}"`, `bind ${HOST}`, "protected-mode no"];
  if (certificate === undefined) lines.push(`port ${port}`);
  else lines.push("port 0", `tls-port ${port}`, ...tlsLines(certificate));
  if (socketPath !== undefined) lines.push(`unixsocket "${socketPath}"`);
  if (password !== undefined) lines.push(`requirepass "${password}"`);
  if (!sentinel) lines.push('save ""');
  if (appendonly) lines.push("appendonly yes", "appendfsync always");
  return `${[...lines, ...config].join("\n")}\n`;
}

function tlsLines({ certFile, keyFile }: Certificate): string[] {
  return [
    `tls-cert-file "${certFile}"`,
    `tls-key-file "${keyFile}"`,
    `tls-ca-cert-file "${certFile}"`,
    "tls-auth-clients no",
    "tls-replication yes",
  ];
}
