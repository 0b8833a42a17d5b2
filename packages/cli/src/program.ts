/** The whole command tree, as parsed, completed and documented. */
import { CliCommand } from "./cli-command.ts";
import { commands } from "./commands.ts";
import { version } from "./version.ts";

export function createProgram(): CliCommand {
  const program = new CliCommand("ropeway")
    .description("Everything a fleet of services needs from the Redis it already runs.")
    .version(version, "-V, --version", "print the version")
    .explains("Start with `ropeway up`. `ropeway <command> --help` describes a command.");
  for (const command of commands) program.addCommand(command());
  return program.complete();
}
