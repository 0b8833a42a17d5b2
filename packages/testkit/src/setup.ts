// A vitest setup file that fails every test file that leaves something open. It is loaded before the
// test file, so its hook runs last (vitest's "stack" order).
//
// Property tests use a fixed seed, so that their results are repeatable. Set ROPEWAY_SEED to another
// number, or to "random", to try new cases.
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
