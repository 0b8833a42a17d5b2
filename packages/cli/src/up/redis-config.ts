/**
 * The redis.conf of a home. Loopback only and without a password: every user of this machine can use it,
 * as is usual for a server under development; a fleet sets REDIS_URL instead.
 *
 * The Unix socket is a sign of life for other containers that share the home (presence.ts). Its path is
 * relative to `dir`, which comes first: a socket's path may have 107 bytes only.
 *
 * appendfsync always: a reply is sent after its write is on the disk, so that accepted data
 * survives even a power failure. Redis syncs once for all commands of a turn of its loop; measured
 * here, a single client waits about 0.3 ms more per write and 50 clients get nearly the same rate.
 */
import { SERVER_SOCKET } from "./server-record.ts";

export interface RedisConfig {
  readonly folder: string;
  readonly host: string;
  readonly port: number;
  readonly appendfsync: string;
}

/** The file's text. */
export function redisConfig({ folder, host, port, appendfsync }: RedisConfig): string {
  return `# Written by ropeway at each start; changes are lost. Settings: ropeway.toml
bind ${host}
port ${port}
protected-mode yes
daemonize no
dir ${quoted(folder)}
unixsocket ${SERVER_SOCKET}
unixsocketperm 700
appendonly yes
appendfsync ${appendfsync}
save ""
maxmemory-policy noeviction
`;
}

/** A text as redis.conf reads it. */
function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}
