import { join } from "node:path";
import type { Certificate } from "./certificate.ts";
import type { OtherVersion } from "./other-server.ts";

/** What to start. */
export interface RedisOptions {
  /** More settings in redis.conf's own words, such as `["maxmemory 1mb"]`; they override ours, but loglevel must stay: we wait for a line of the log. */
  readonly config?: readonly string[];
  /** A fixed port; taken already is then an error. @default a free one */
  readonly port?: number;
  /** Listen on a Unix socket only. @default false */
  readonly socket?: boolean;
  /** Keep an append-only file, synced before each answer, so that kill9() loses nothing. @default false */
  readonly appendonly?: boolean;
  /** requirepass. @default none */
  readonly password?: string;
  /** Speak TLS only, with a certificate made for this server. @default false */
  readonly tls?: boolean;
  /** Another release than this machine's own; see `otherServer` for where it comes from. */
  readonly version?: Extract<OtherVersion, `redis-${string}` | `valkey-${string}`>;
  /** Run as a Sentinel. @default false */
  readonly sentinel?: boolean;
}

/** Options with everything decided: what one redis.conf is written from. */
export interface RedisPlan extends RedisOptions {
  readonly command: readonly string[];
  readonly dir: string;
  readonly port: number;
  readonly certificate: Certificate | undefined;
}

/** Loopback only: no test server is reachable from outside. */
export const HOST = "127.0.0.1";

/** Where a server listens that was asked for a socket. */
export function socketPathOf({ socket, dir }: RedisPlan): string | undefined {
  return socket ? join(dir, "redis.sock") : undefined;
}

/** The text of its redis.conf. Later lines win, so the caller's come last. */
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
