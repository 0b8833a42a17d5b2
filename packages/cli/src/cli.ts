/**
 * One run of the CLI: parse, run the handler, and turn the outcome into an exit code and at most one sentence.
 *
 *   command line --> help, version            0
 *                --> not understood           2   one sentence, with "did you mean"
 *                --> handler --> a number     that number
 *                            --> an error     exit-code.ts; one sentence, the stack with --debug only
 */
import { RopewayError } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { CommanderError } from "commander";
import type { CliCommand, Invocation } from "./cli-command.ts";
import { commandOf, sentenceOf } from "./command-line.ts";
import type { Context, World } from "./context.ts";
import { isDiskFull } from "./disk-full.ts";
import { DiskFullError, UsageError } from "./errors.ts";
import { codeOf, EXIT, exitCodeOf } from "./exit-code.ts";
import { createProgram } from "./program.ts";
import { type LoadedSettings, loadSettings } from "./settings/load.ts";
import { Output, type Sink } from "./terminal/output.ts";

/** Longer lines are hard to read, however wide the terminal is. */
const MAX_HELP_WIDTH = 100;

/** What a run needs besides its arguments. */
export interface CliWorld extends World {
  readonly stdout: Sink;
  readonly stderr: Sink;
}

/** Runs one command line, without the program's name, and returns the exit code. */
export async function runCli(argv: readonly string[], world: CliWorld): Promise<number> {
  let output = outputFor(world, { json: argv.includes("--json") });
  const debug = argv.includes("--debug");
  let context: Context | undefined;
  try {
    const invocation = parse(argv, world);
    if (invocation === undefined) return EXIT.ok.code;
    const { handler, options } = invocation;
    output = outputFor(world, options);
    context = contextOf(invocation, world, output);
    return (await handler(context)) ?? EXIT.ok.code;
  } catch (error) {
    if (world.signal.aborted) return interruptionCode(world.signal);
    const first = explained(firstOf(error), world, context);
    report(first, output, debug);
    return exitCodeOf(first);
  }
}

/** When closing fails after a failure, `await using` wraps both; the first one is the reason. */
function firstOf(error: unknown): unknown {
  const isPair = error instanceof Error && error.name === "SuppressedError";
  return isPair ? firstOf((error as Error & { suppressed: unknown }).suppressed) : error;
}

/** The errors for a full disk and an unreachable etcd do not say what to do, so they are replaced. */
function explained(error: unknown, { cwd }: CliWorld, context: Context | undefined): unknown {
  if (
    error instanceof RopewayError &&
    error.code === "STORE_UNAVAILABLE" &&
    context !== undefined
  ) {
    const { values, origins } = context.settings();
    if (values["store.url"] === "redis") return error;
    const advice = `check that server, or change ${origins["store.url"].where}`;
    const about = { cause: error, details: { ...error.details, advice } };
    return new RopewayError(error.code, `${error.message}; ${advice}`, about);
  }
  if (!isDiskFull(error)) return error;
  return new DiskFullError((error as NodeJS.ErrnoException).path ?? cwd, error);
}

/** The exit code of a command that a signal interrupted. */
export function interruptionCode(signal: AbortSignal): number {
  return signal.reason === "SIGTERM" ? 143 : EXIT.interrupted.code;
}

/** The invocation that the command line describes; undefined if it asked for help, which was printed. */
function parse(argv: readonly string[], world: CliWorld): Invocation | undefined {
  const program = createProgram();
  const colours = world.stdout.isTTY === true && allowsColours(world);
  quiet(program, world.stdout, colours && !argv.includes("--no-color"));
  const command = commandOf(program, argv);
  try {
    program.parse([...argv], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0 || error.code === "commander.help") return undefined;
    throw new UsageError(sentenceOf(error, command));
  }
  return program.chosen;
}

/** Help is a result; errors are reported by us and not by commander. */
function quiet(command: CliCommand, stdout: Sink, colours: boolean): void {
  const write = (text: string) => void stdout.write(text);
  const hasColours = () => colours;
  const width = () => Math.min(stdout.columns ?? 80, MAX_HELP_WIDTH);
  command.configureOutput({
    writeOut: write,
    writeErr: write,
    outputError: () => {},
    getOutHasColors: hasColours,
    getErrHasColors: hasColours,
    getOutHelpWidth: width,
    getErrHelpWidth: width,
  });
  for (const child of command.commands) quiet(child as CliCommand, stdout, colours);
}

function contextOf(invocation: Invocation, world: CliWorld, output: Output): Context {
  const { env, cwd, signal, stdin } = world;
  const { options, flags } = invocation;
  let loaded: LoadedSettings | undefined;
  const settings = () => {
    if (loaded === undefined) {
      loaded = loadSettings({ env, cwd, flags, file: options.config as string | undefined });
      for (const warning of loaded.warnings) output.warn(warning);
    }
    return loaded;
  };
  return { env, cwd, signal, stdin, output, settings, options, arguments: invocation.arguments };
}

function outputFor(world: CliWorld, options: Readonly<Record<string, unknown>>): Output {
  const { stdout, stderr } = world;
  const colour = options.color !== false && allowsColours(world);
  return new Output({ stdout, stderr, json: options.json === true, colour });
}

function allowsColours({ env }: CliWorld): boolean {
  return !env.NO_COLOR && env.TERM !== "dumb";
}

function report(error: unknown, output: Output, debug: boolean): void {
  const code = codeOf(error);
  const reason = reasonOf(error).replace(/\s*\n\s*/g, " ");
  const message =
    code === undefined ? `unexpected error: ${reason} (--debug prints its stack)` : reason;
  const { details = {} } = error as { details?: object };
  const stack = debug && error instanceof Error ? error.stack : undefined;
  output.error({ ...details, code: code ?? "UNEXPECTED", message }, stack);
}
