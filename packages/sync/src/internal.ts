/** Exports for our own packages only. They can change in any release. */
export { CommandReader, type CommandReaderOptions, WireCommand } from "./resp/command-reader.ts";
export { ErrorReply, PushReply, type Reply, ReplyReader } from "./resp/reply-reader.ts";
export { type Argument, RespWriter } from "./resp/writer.ts";
