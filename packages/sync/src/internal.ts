/** What our own packages share and nobody else should rely on. */
export { CommandReader, type CommandReaderOptions, WireCommand } from "./resp/command-reader.ts";
export { ErrorReply, PushReply, type Reply, ReplyReader } from "./resp/reply-reader.ts";
export { type Argument, RespWriter } from "./resp/writer.ts";
