/** docs/reference/settings.md, made from the table. */
import { flagOf, partsOf, settingKeys, specOf, variableOf } from "./table.ts";

const HEAD = `# Settings

Ropeway reads settings from \`ropeway.toml\` in the current folder (or the file given by \`--config\` or
\`ROPEWAY_CONFIG\`), from environment variables, and from flags. Environment variables override the file, and flags override
both. \`ropeway config\` prints every value and where it comes from. \`ropeway config example\` prints a complete file. An
invalid value or an unknown key stops the command with an error that names the key, the value and its source.

Relative paths in the file are relative to the file's folder. Relative paths in environment variables and flags are relative
to the current folder. An empty environment variable counts as not set. Secrets are accepted from the environment and from
files of their own. A password in \`ropeway.toml\` or on the command line is refused, because others can read it there.
`;

/** The page's text. */
export function settingsReference(): string {
  let text = HEAD;
  let current: string | undefined;
  for (const key of settingKeys) {
    const { section } = partsOf(key);
    const { kind, default: usual, doc } = specOf(key);
    if (section !== current) {
      text += `\n## ${section === "" ? "Top level" : `[${section}]`}\n\n`;
      text += "| key | environment | flag | default | meaning |\n|---|---|---|---|---|\n";
    }
    current = section;
    const flag = flagOf(key);
    const cells = [
      `\`${key}\``,
      `\`${variableOf(key)}\``,
      flag === undefined ? "" : `\`${flag}\``,
      usual === undefined ? "" : `\`${JSON.stringify(usual)}\``,
      `${doc} Must be ${kind.allowed}.`,
    ];
    text += `| ${cells.join(" | ")} |\n`;
  }
  return text;
}
