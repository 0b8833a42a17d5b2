import { Option } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

type Verbs = typeof import("../rpc/verbs.ts");

/** `ropeway rpc ...`: services found, described and called, and a demo to try it with. */
export function rpcCommand(): CliCommand {
  const rpc = defineCommand("rpc", "List services, call them, and show their statistics");
  for (const verb of [
    listVerb(),
    describeVerb(),
    workersVerb(),
    callVerb(),
    toMethod(verbOf("notify", "Call a method and do not wait for its result")),
    submitVerb(),
    pollVerb(),
    wire(verbOf("cancel", "Cancel a submitted call")).argument("<ticket>", TICKET),
    statsVerb(),
    serveDemoVerb(),
  ]) {
    rpc.addCommand(verb);
  }
  return rpc;
}

function verbOf(name: string, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .runs(async (context) =>
      (await import("../rpc/verbs.ts")).verbs[name as keyof Verbs["verbs"]](context),
    );
}

function wire(verb: CliCommand): CliCommand {
  return verb
    .addOption(
      new Option("--dialect <name>", "the wire").choices(["jsonrpc", "kw"]).default("jsonrpc"),
    )
    .option("--prefix <prefix>", "the prefix of the kw wire", "redis_rpc");
}

function listVerb(): CliCommand {
  return verbOf("list", "List services with their workers and waiting calls").option(
    "--ns <ns>",
    "only this namespace",
  );
}

function describeVerb(): CliCommand {
  return verbOf("describe", "Show the methods of a service").argument(
    "<service>",
    "as namespace/service",
  );
}

function workersVerb(): CliCommand {
  return verbOf("workers", "List the live workers of a service").argument(
    "<service>",
    "as namespace/service",
  );
}

const TICKET = "what `rpc submit` printed";

function toMethod(verb: CliCommand): CliCommand {
  return wire(verb)
    .argument(
      "<target>",
      "service.method in the namespace `default`, or namespace/service.method; for the kw wire, the name of the function",
    )
    .argument("[params]", "a JSON array or object; - reads standard input", "[]");
}

function submitVerb(): CliCommand {
  return toMethod(verbOf("submit", "Start a call and print its ticket"))
    .option("--timeout <time>", "the call is refused if it has not started by then", "2m")
    .explains("`rpc poll` prints the result, and `rpc cancel` cancels the call.");
}

function pollVerb(): CliCommand {
  return wire(verbOf("poll", "Print the result of a submitted call as JSON"))
    .argument("<ticket>", TICKET)
    .option("--wait <time>", "how long to wait for the result, such as 30s", "0")
    .option("--progress", "print progress to standard error until the call has ended");
}

function callVerb(): CliCommand {
  return toMethod(verbOf("call", "Call a method and print its result as JSON"))
    .option("--timeout <time>", "how long to wait", "10s")
    .option("--stream", "print the items of a stream, one line each")
    .option("--progress", "print progress to standard error")
    .option("--session <group:client>", "stick to one node of the group")
    .explains(`  ropeway rpc call shop/demo.add '[1,2]'
  ropeway rpc call --dialect kw --prefix shop add '{"a":1,"b":2}'`);
}

function statsVerb(): CliCommand {
  return verbOf("stats", "Show calls, errors and latencies per method and worker").option(
    "--ns <ns>",
    "only this namespace",
  );
}

function serveDemoVerb(): CliCommand {
  return wire(verbOf("serve-demo", "Serve the demo service `demo`"))
    .option("--ns <ns>", "the namespace of the jsonrpc wire", "default")
    .option("--node <id>", "the name of this node")
    .option("--group <group>", "take part in this session group")
    .explains(
      "It has echo(value), add(a,b), fail(message), slow(seconds) with progress, count(n) as a stream, and whoami().",
    );
}
