/** Runs a program of the document, in Python (see seed.py). */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** A running program: its lines as they come, and the result that it prints last. */
export interface SeedProgram {
  readonly lines: unknown[];
  readonly result: Promise<unknown>;
}

/** Starts `name(conn, ...args)`. */
export function seed(port: number, name: string, ...args: readonly unknown[]): SeedProgram {
  const file = fileURLToPath(new URL("./seed.py", import.meta.url));
  const child = spawn("python3", [file, String(port), name, JSON.stringify(args)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: unknown[] = [];
  createInterface(child.stdout).on("line", (line) => lines.push(JSON.parse(line)));
  const result = once(child, "close").then(([code]) => {
    if (code !== 0) throw new Error(`${name} ended with ${code}`);
    return lines.at(-1);
  });
  return { lines, result };
}
