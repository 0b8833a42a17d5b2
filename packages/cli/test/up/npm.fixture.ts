// Stands where npm and its shell stand: starts the CLI, shows what it prints, forwards no signal.
import { spawn } from "node:child_process";

const [main = "", ...args] = process.argv.slice(2);
const child = spawn(process.execPath, [...process.execArgv, main, ...args], {
  stdio: ["ignore", "inherit", "inherit"],
  env: { ...process.env, npm_lifecycle_event: "start" },
  detached: true,
});
process.stdout.write(`started ${child.pid}\n`);
