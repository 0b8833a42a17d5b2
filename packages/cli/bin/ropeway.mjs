#!/usr/bin/env node
// In the repository and not in dist, because npm links a program at install time, before the build.
import { existsSync } from "node:fs";

const main = new URL("../dist/main.js", import.meta.url);
if (existsSync(main)) {
  await import(main.href);
} else {
  process.stderr.write("ropeway: not built yet: run `npm start`, or `npm run build`\n");
  process.exitCode = 1;
}
