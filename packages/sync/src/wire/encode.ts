import { type Argument, RespWriter } from "../resp/writer.ts";

/** One command in RESP, for commands that are sent rarely. The hot path keeps a RespWriter. */
export function encodeCommand(argv: readonly Argument[]): Buffer {
  const writer = new RespWriter();
  writer.command(argv);
  return Buffer.concat(writer.take());
}
