// A vitest setup file: every test file it is loaded for fails if it leaves something behind.
// It is loaded before the file, so its hook is the last one to run (vitest's "stack" order).
//
// Property tests use one seed, so that a change is judged by the change and not by chance. Set
// ROPEWAY_SEED to a number, or to "random", to look for cases that nobody has tried.
import fc from "fast-check";
import { afterAll } from "vitest";
import { LeakWatch } from "./leaks.ts";

const DEFAULT_SEED = 20_260_701;

const wanted = process.env.ROPEWAY_SEED;
if (wanted !== "random") {
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(wanted ?? DEFAULT_SEED) });
}

const watch = new LeakWatch();

afterAll(() => watch.check());
