import { type CliCommand, defineCommand } from "../cli-command.ts";
import { version } from "../version.ts";

/** `ropeway version`. */
export function versionCommand(): CliCommand {
  return defineCommand("version", "Print the versions of ropeway and Node").runs(
    async ({ output }) => {
      output.result({ ropeway: version, node: process.versions.node }, (versions) => {
        output.line(`ropeway ${versions.ropeway}`);
        output.line(`node ${versions.node}`);
      });
    },
  );
}
