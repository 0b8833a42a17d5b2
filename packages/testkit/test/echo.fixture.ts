import { createInterface } from "node:readline";
import { TestkitError } from "@ropeway/testkit";

process.on("SIGTERM", () => process.exit(4));

// The import proves that a script reads our packages' sources; the line that it came so far.
const [argument = "-"] = process.argv.slice(2);
if (TestkitError.name === "TestkitError") {
  process.stdout.write(`ready ${argument} ${process.env.COLOUR ?? "-"}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "quit") process.exit(3);
  if (line === "complain") process.stderr.write("a complaint on standard error\n");
  else process.stdout.write(`echo ${line}\n`);
}
