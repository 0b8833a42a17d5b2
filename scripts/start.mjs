// `npm start`: prepares the workspace, then becomes `ropeway up` with the arguments it was given.
//
// "Becomes" is meant: the command is imported into this process instead of started as a child, so
// that every signal, the exit code and the terminal are its own and no process can be left behind.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { prepare, root } from "./prepare.mjs";

await prepare();
const main = join(root, "packages", "cli", "dist", "main.js");
process.argv.splice(1, 1, main, "up");
await import(pathToFileURL(main).href);
