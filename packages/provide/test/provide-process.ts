// A process of its own that provides a redis-server into the folder given as its argument; prints
// each sentence of progress and last the program as JSON.
import { provide } from "../src/index.ts";

const folder = process.argv[2] as string;
const print = (line: string) => process.stdout.write(`${line}\n`);
const program = await provide("redis-server", {
  folder,
  env: { ...process.env, PATH: "", ROPEWAY_REDIS_SERVER: undefined },
  onProgress: print,
});
print(JSON.stringify(program));
