/** docs/reference/cli.md, made from the command tree. */
import type { Command, Option } from "commander";
import { type CliCommand, globalOptions } from "./cli-command.ts";
import { isExample, paragraphs } from "./command-help.ts";
import { EXIT } from "./exit-code.ts";
import { flagOf } from "./settings/table.ts";

const HEAD = `# Command line

\`ropeway <noun> [verb]\`. This page is generated from the commands; \`ropeway <command> --help\` prints the same.

Results go to standard output, everything else goes to standard error. On a terminal, tables fit the width and have a head
and colours. In a pipe, tables are tab-separated rows without a head. \`NO_COLOR\` and \`--no-color\` turn colours off. Control
characters in data are printed as escapes such as \`\\u001b\`.

| output | with \`--json\` |
|---|---|
| a list | \`{"items": [...], "cursor": ...}\`; \`cursor\` is null on the last page |
| one thing | the object |
| a change | \`{"outcome": "...", ...}\` |
| a warning, which does not end the command | \`{"warning": "..."}\` on standard error |
| an error | \`{"error": {"code": "...", "message": "..."}}\` on standard error; [errors.md](errors.md) lists the codes |

Times are ISO 8601 strings in UTC.

A command that only prints, such as \`merge watch\`, ends with 0 if the reader of its output has gone (\`ropeway merge watch |
head -1\`). It notices that at its next line.

## Standard input

\`-\` in place of a payload or an address reads it from standard input. A payload is a job's data, the body of an item, the
params of a call, a message, or the JSON of \`--options\`; it takes all of standard input. An address, such as \`--from\`, takes
one line. Passwords are asked for on a terminal, and taken from the first line of standard input in a pipe. If standard input is a
terminal, the command says on standard error that it reads.

\`\`\`sh
echo '{"to":"ann@example.com"}' | ropeway jobs add mail welcome -
ropeway sync run --from - --to env:NEW_URL < old.url
\`\`\`

In all other arguments \`-\` is an ordinary string.
`;

/** The page's text. */
export function cliReference(program: CliCommand): string {
  const everywhere = globalOptions();
  const sections = leaves(program).map((command) => commandSection(command, everywhere));
  const codes = Object.values(EXIT).map(({ code, meaning }) => `| ${code} | ${meaning} |`);
  return [
    HEAD,
    `## Options of every command\n\n${optionTable(everywhere)}`,
    `## Exit codes\n\n| code | meaning |\n|---|---|\n${codes.join("\n")}\n`,
    ...sections,
  ].join("\n");
}

/** Every command that does something, in the order of help. */
function leaves(command: Command): Command[] {
  return command.commands.flatMap((child) => [child, ...leaves(child)]);
}

function commandSection(command: Command, everywhere: readonly Option[]): string {
  const names = everywhere.map(({ long }) => long);
  const settings = (command as CliCommand).settingKeys.map((key) => ({ key, flag: flagOf(key) }));
  const flags = settings.map(({ flag }) => flag);
  const own = command.options.filter(
    ({ long, hidden }) => !hidden && ![...names, ...flags].includes(long ?? ""),
  );
  const parts = [`## ${pathOf(command)}\n\n${command.description()}.\n`];
  const { explanation } = command as CliCommand;
  if (explanation !== "") parts.push(`${paragraphs(explanation).map(asMarkdown).join("\n\n")}\n`);
  const usage = command.registeredArguments.map((argument) => {
    const { argChoices, description } = argument;
    return `| \`<${argument.name()}>\` | ${description}${listed(argChoices)} |`;
  });
  if (usage.length > 0) parts.push(`| argument | meaning |\n|---|---|\n${usage.join("\n")}\n`);
  if (own.length > 0) parts.push(optionTable(own));
  if (settings.length > 0) {
    const list = settings.map(({ flag }) => `\`${flag}\``).join(", ");
    parts.push(`[Settings](settings.md): ${list}\n`);
  }
  return parts.join("\n");
}

function asMarkdown(paragraph: string): string {
  if (!isExample(paragraph)) return paragraph;
  return `\`\`\`sh\n${paragraph.replace(/^ {2}/gm, "")}\n\`\`\``;
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

function optionTable(options: readonly Option[]): string {
  const rows = options.map(({ flags, description, argChoices }) => {
    return `| \`${flags}\` | ${description}${listed(argChoices)} |`;
  });
  return `| option | meaning |\n|---|---|\n${rows.join("\n")}\n`;
}

function listed(choices: readonly string[] | undefined): string {
  return choices === undefined ? "" : `: ${choices.join(", ")}`;
}
