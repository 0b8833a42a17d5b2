// A vitest setup file: every test file it is loaded for fails if it leaves something behind.
// It is loaded before the file, so its hook is the last one to run (vitest's "stack" order).
import { afterAll } from "vitest";
import { LeakWatch } from "./leaks.ts";

const watch = new LeakWatch();

afterAll(() => watch.check());
