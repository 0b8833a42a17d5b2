import { PagePool } from "../resp/page.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";

const pool = new PagePool();

/** One command in RESP, for commands that are sent rarely. The hot path keeps a RespWriter. */
export function encodeCommand(argv: readonly Argument[]): Buffer {
  const writer = new RespWriter(pool);
  writer.command(argv);
  const encoded = Buffer.concat(writer.take());
  writer.release();
  return encoded;
}
