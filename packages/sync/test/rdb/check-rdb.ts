// redis-check-rdb, which comes with the server: it is the same program under another name.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { program } from "@ropeway/testkit/internal";

/** What the checker prints about a file, and whether it is good. */
export async function checkRdb(path: string): Promise<{ good: boolean; said: string }> {
  const [server = ""] = await program("redis-server");
  const text = readFileSync(server, "latin1");
  // A provided server is started by a shell script that finds its folder by $0.
  const run = text.startsWith("#!")
    ? spawnSync("sh", ["-c", text.replaceAll('redis-server"', 'redis-check-rdb"'), server, path], {
        encoding: "utf8",
      })
    : spawnSync(server.replace(/redis-server$/, "redis-check-rdb"), [path], { encoding: "utf8" });
  return { good: run.status === 0, said: `${run.stdout}${run.stderr}${run.error ?? ""}` };
}
