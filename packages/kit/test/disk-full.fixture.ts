/** Saves a file of three chunks; prints how many of them it asked for and why it failed. */
import { saveTo } from "../src/files/index.ts";

const CHUNK = 262_144;
let asked = 0;
const file = {
  name: "f",
  size: 3 * CHUNK,
  offset: 0,
  sha256: undefined,
  async *[Symbol.asyncIterator]() {
    for (; asked < 3; ) {
      asked += 1;
      yield Buffer.alloc(CHUNK, asked);
    }
  },
};
const code = await saveTo(process.argv[2] as string)(file).then(
  () => "saved",
  (error) => error.code,
);
process.stdout.write(JSON.stringify({ asked, code }));
