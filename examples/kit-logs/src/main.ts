/** A log file for two receivers, one of which counts lines per status and one that counts bytes. */
import { connect } from "@ropeway/core";
import { Files, lines } from "@ropeway/kit/files";

const redis = await connect(process.env.REDIS_URL);
const options = { prefix: "example" };

async function* accessLog(): AsyncGenerator<Buffer> {
  for (let i = 0; i < 10_000; i++)
    yield Buffer.from(`GET /page/${i} ${i % 10 === 0 ? 404 : 200}\n`);
}

const statuses = new Files(redis, "logs:", options).receive("statuses", async (file) => {
  const counts = new Map<string, number>();
  for await (const line of lines(file)) {
    const status = line.split(" ")[2] ?? "";
    counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  console.log(`${file.name}: ${[...counts].map(([status, n]) => `${status} ${n}`).join(", ")}`);
});
let bytes = 0;
const sizes = new Files(redis, "logs:", options).receive("sizes", async (file) => {
  for await (const chunk of file) bytes += chunk.length;
});

const files = new Files(redis, "logs:", options);
const published = await files.publish(accessLog(), {
  receivers: ["statuses", "sizes"],
  name: "access.log",
});
await files.end();
await Promise.all([statuses, sizes]);
console.log(bytes === published.bytes ? "both have the whole file" : "a part is missing");
await redis.close();
