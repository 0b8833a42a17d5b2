/** The benches: every file in benches/ that exports `bench`. A new one needs no other registration. */
import { readdirSync } from "node:fs";
import type { Bench } from "./bench.ts";

const FOLDER = new URL("./benches/", import.meta.url);
const ENDING = import.meta.url.slice(-3);

/** The names that `npm run bench -- <name>` takes. */
export function benchNames(): string[] {
  return readdirSync(FOLDER)
    .filter((file) => /^[a-z-]+\.[jt]s$/.test(file) && file.endsWith(ENDING))
    .map((file) => file.slice(0, -3))
    .sort();
}

/** The bench of that name. */
export async function loadBench(name: string): Promise<Bench> {
  if (!benchNames().includes(name)) {
    throw new Error(`no bench ${JSON.stringify(name)}; there are: ${benchNames().join(", ")}`);
  }
  const { bench } = (await import(new URL(name + ENDING, FOLDER).href)) as { bench: Bench };
  return bench;
}
