/** Finds the benches. Every file in benches/ that exports `bench` is one. */
import { readdirSync } from "node:fs";
import type { Bench } from "./bench.ts";

const FOLDER = new URL("./benches/", import.meta.url);
const ENDING = import.meta.url.slice(-3);

/** The names for `npm run bench -- <name>`. */
export function benchNames(): string[] {
  return readdirSync(FOLDER)
    .filter((file) => /^[a-z-]+\.[jt]s$/.test(file) && file.endsWith(ENDING))
    .map((file) => file.slice(0, -3))
    .sort();
}

/** The bench of that name. */
export async function loadBench(name: string): Promise<Bench> {
  if (!benchNames().includes(name)) {
    throw new Error(`unknown bench ${JSON.stringify(name)}; available: ${benchNames().join(", ")}`);
  }
  const { bench } = (await import(new URL(name + ENDING, FOLDER).href)) as { bench: Bench };
  return bench;
}
