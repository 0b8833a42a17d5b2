import { join } from "node:path";
import { type ProvideOptions, provide } from "@ropeway/provide";
import { TestkitError } from "./errors.ts";
import { type OtherVersion, otherServer } from "./other-server.ts";
import { workspaceRoot } from "./workspace.ts";

/** The servers the testkit starts. */
export type ServerName = "redis-server" | "etcd";

const found = new Map<ServerName, Promise<readonly string[]>>();

/** The command that starts a real server, of the installed version or of another one. */
export function program(name: ServerName, version?: OtherVersion): Promise<readonly string[]> {
  if (version !== undefined) return otherProgram(version);
  const known = found.get(name);
  if (known !== undefined) return known;
  const search = provide(name, provideOptions()).then(({ command }) => command);
  found.set(name, search);
  return search;
}

async function otherProgram(version: OtherVersion): Promise<readonly string[]> {
  const { command, reason } = otherServer(version);
  if (command === undefined) throw new TestkitError("NO_PROGRAM", reason);
  return command;
}

/** Keeps programs in a folder of the clone, independent of the working directory. */
export function provideOptions(): ProvideOptions {
  const { ROPEWAY_PROGRAMS, ROPEWAY_HOME } = process.env;
  if (ROPEWAY_PROGRAMS || ROPEWAY_HOME) return {};
  return { folder: join(workspaceRoot(), ".ropeway", "programs") };
}
