import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { TestkitError } from "./errors.ts";
import { type OtherVersion, otherServer } from "./other-server.ts";

const VARIABLES = { "redis-server": "ROPEWAY_REDIS_SERVER", etcd: "ROPEWAY_ETCD" } as const;

/** The servers the testkit starts. */
export type ProgramName = keyof typeof VARIABLES;

/** The command that starts a real server: of this machine's own version, or of another one. */
export async function program(
  name: ProgramName,
  version?: OtherVersion,
): Promise<readonly string[]> {
  if (version !== undefined) {
    const { command, reason } = otherServer(version);
    if (command === undefined) throw new TestkitError("NO_PROGRAM", reason);
    return command;
  }
  const variable = VARIABLES[name];
  const path = process.env[variable] ?? onPath(name);
  if (path === undefined) {
    const { command } = otherServer(name === "etcd" ? "etcd-3.4" : "redis-7.0");
    if (command !== undefined) return command;
    throw new TestkitError("NO_PROGRAM", `${name} is not on PATH; set ${variable} to its path`);
  }
  return [path];
}

function onPath(name: string): string | undefined {
  const candidates = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
  return candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
