import type { RedisServer } from "./redis-server.ts";

/** One section of INFO (or CLUSTER INFO) as field and value. */
export function parseInfo(text: string): Map<string, string> {
  return new Map(
    text.split(/\r?\n/).map((line): [string, string] => {
      const cut = line.indexOf(":");
      return [line.slice(0, cut), line.slice(cut + 1)];
    }),
  );
}

/** Asks a server for one section of INFO. */
export async function infoOf(server: RedisServer, section: string): Promise<Map<string, string>> {
  return parseInfo(String(await server.command("INFO", section)));
}
