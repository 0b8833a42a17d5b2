import { Argument } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import { bashScript } from "../completion/bash.ts";
import { fishScript } from "../completion/fish.ts";
import { type Place, placesOf } from "../completion/tree.ts";
import { zshScript } from "../completion/zsh.ts";

const SCRIPTS: Readonly<Record<string, (places: readonly Place[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** `ropeway completion bash|zsh|fish`. */
export function completionCommand(): CliCommand {
  const command = defineCommand("completion", "Print a shell completion script");
  return command
    .addArgument(new Argument("<shell>", "the shell").choices(Object.keys(SCRIPTS)))
    .explains(
      `  source <(ropeway completion bash)       # in ~/.bashrc
  source <(ropeway completion zsh)        # in ~/.zshrc, after compinit
  ropeway completion fish | source        # in ~/.config/fish/config.fish`,
    )
    .runs(async ({ output, arguments: [shell = ""] }) => {
      const script = SCRIPTS[shell]?.(placesOf(command.parent ?? command)) ?? "";
      output.result({ shell, script }, () => output.block(script));
    });
}
