/** The server's name and version, read from INFO, and whether it is new enough for the libraries. */

/** A server's family and version. */
export interface ServerInfo {
  readonly family: "redis" | "valkey";
  /** The family's own version; empty if the server does not report it. */
  readonly version: string;
  /** The name and version, such as "Redis 7.0.15". */
  readonly title: string;
}

/** The oldest versions the libraries work with. */
export const MINIMUM: Readonly<Record<ServerInfo["family"], readonly [number, number]>> = {
  redis: [6, 2],
  valkey: [7, 2],
};

const TITLE = { redis: "Redis", valkey: "Valkey" } as const;

/** Reads the reply of INFO server. */
export function parseServerInfo(info: string): ServerInfo {
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
  const valkey = field("valkey_version");
  const family = valkey !== undefined || field("server_name") === "valkey" ? "valkey" : "redis";
  const version = valkey ?? field("redis_version") ?? "";
  return { family, version, title: `${TITLE[family]} ${version || "of unknown version"}` };
}

/**
 * The required version, if the server is too old; undefined if it is new enough or does not report its
 * version.
 */
export function tooOld(server: ServerInfo): string | undefined {
  if (server.version === "" || atLeast(server, MINIMUM[server.family])) return undefined;
  const [redis, valkey] = [MINIMUM.redis.join("."), MINIMUM.valkey.join(".")];
  return `Redis ${redis} or Valkey ${valkey}, or newer,`;
}

/** Whether the server has at least the given version, for features such as BLMPOP (7.0). */
export function atLeast(server: ServerInfo, wanted: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = server.version.split(".").map(Number);
  return major > wanted[0] || (major === wanted[0] && minor >= wanted[1]);
}
