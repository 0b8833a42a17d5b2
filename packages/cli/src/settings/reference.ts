/** docs/reference/settings.md, made from the table. */
import { flagOf, partsOf, settingKeys, specOf, variableOf } from "./table.ts";

const HEAD = `# Settings

Settings come from \`ropeway.toml\` in the current folder (or the file of \`--config\` or \`ROPEWAY_CONFIG\`), from the
environment and from flags; each of these is stronger than the one before. \`ropeway config\` prints what is in force and
where each value came from, \`ropeway config example\` prints a file to start from. A wrong value, or a key that does not
exist, ends the start with one sentence that names it and the place it came from.

A relative path is seen from the folder of the file it stands in; in the environment and in flags, from the current
folder. A variable that is set to nothing counts as not set. Secrets stand in the environment or in files of their own:
a password in \`ropeway.toml\` or on the command line, where others can read it, is refused.
`;

/** The page's text. */
export function settingsReference(): string {
  let text = HEAD;
  let current: string | undefined;
  for (const key of settingKeys) {
    const { section } = partsOf(key);
    const { kind, default: usual, doc } = specOf(key);
    if (section !== current) {
      text += `\n## ${section === "" ? "At the top" : `[${section}]`}\n\n`;
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
