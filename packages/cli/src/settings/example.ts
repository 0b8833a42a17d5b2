/** ropeway.example.toml: every key with its default and what it means. */
import { secretKind } from "./kind.ts";
import { partsOf, type SettingKey, settingKeys, specOf, variableOf } from "./table.ts";

const HEAD = `# Settings of Ropeway. Copy to ropeway.toml, in the folder you start ropeway from, and remove the "# " in
# front of what you change. Environment variables override this file, and flags override both.
# \`ropeway config\` prints the settings in use. Keep secrets in the environment or in files of their own.
`;

const WIDTH = 110;

/** The file's text. */
export function exampleToml(): string {
  let text = HEAD;
  let current = "";
  for (const key of settingKeys) {
    const { section } = partsOf(key);
    if (section !== current) text += `\n[${section}]\n`;
    current = section;
    text += entry(key);
  }
  return text;
}

function entry(key: SettingKey): string {
  const { kind, default: usual, example, doc } = specOf(key);
  const about = wrap(`${doc} [${variableOf(key)}]`);
  // A secret must not be in this file, so it is only explained.
  if (kind === secretKind) return `\n${about}`;
  return `\n${about}# ${partsOf(key).name} = ${JSON.stringify(usual ?? example)}\n`;
}

function wrap(text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1) ?? "";
    if (line.length + word.length > WIDTH - 4) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines.map((line) => `## ${line}\n`).join("");
}
