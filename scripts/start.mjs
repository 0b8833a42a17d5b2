// `npm start`: prepares the workspace, then runs `ropeway up` with the same arguments.
//
// The command is imported into this process instead of started as a child, so that it receives all
// signals, sets the exit code, owns the terminal and cannot be orphaned.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { prepare, root } from "./prepare.mjs";

await prepare();
const main = join(root, "packages", "cli", "dist", "main.js");
process.argv.splice(1, 1, main, "up");
await import(pathToFileURL(main).href);
