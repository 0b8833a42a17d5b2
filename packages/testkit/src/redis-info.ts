import type { RedisServer } from "./redis-server.ts";

/** The fields and values of one section of INFO, or of CLUSTER INFO. */
export function parseInfo(text: string): Map<string, string> {
  return new Map(
    text.split(/\r?\n/).map((line): [string, string] => {
      const cut = line.indexOf(":");
      return [line.slice(0, cut), line.slice(cut + 1)];
    }),
  );
}

/** Reads one section of INFO from a server. */
export async function infoOf(server: RedisServer, section: string): Promise<Map<string, string>> {
  return parseInfo(String(await server.command("INFO", section)));
}
