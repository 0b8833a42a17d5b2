/** A worker in a process of its own: `url node [atLeastOnce|plainPop] [default]`. Prints what it begins. */
import { connect } from "@ropeway/core";
import { RpcServer } from "../src/index.ts";

const [url = "", node = "", mode = "", pace = ""] = process.argv.slice(2);
const redis = await connect(url);
const server = new RpcServer(redis, {
  ns: "t",
  node,
  group: "g",
  ...(pace === "default" ? {} : { heartbeatMs: 300 }),
  atLeastOnce: mode === "atLeastOnce",
  plainPop: mode === "plainPop",
});
/** Any line on the standard input lets the work end. */
const finish = new Promise((resolve) => process.stdin.once("data", resolve));
server.add("demo", {
  whoami: (_params, { session }) => ({ node, ...session }),
  hang: ([number]: [number]) => {
    process.stdout.write(`began ${number}\n`);
    return new Promise(() => {});
  },
  work: async ([number]: [number]) => {
    process.stdout.write(`began ${number}\n`);
    await finish;
    process.stdout.write(`finished ${number}\n`);
    return `${node} ${number}`;
  },
});
await server.start();
process.stdout.write("ready\n");
process.on("SIGTERM", async () => {
  await server.close();
  await redis.close();
});
