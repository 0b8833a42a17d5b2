import type { Flag, Place } from "./tree.ts";

/** A script for fish: `ropeway completion fish | source`. */
export function fishScript(places: readonly Place[]): string {
  const below = places.map(({ path }) => path).filter((path) => path !== "");
  const lines = places.flatMap(({ path, words, options }) => {
    const here = `complete -c ropeway -n "__ropeway_at '${path}'"`;
    return [
      ...words.map(({ name, summary }) => `${here} -a ${name} -d '${escaped(summary)}'`),
      ...options.map((flag) => `${here} ${optionPart(flag)} -d '${escaped(flag.summary)}'`),
    ];
  });
  return `# fish completion of ropeway
function __ropeway_at
  set -l place ''
  for word in (commandline -opc)[2..]
    contains -- "$place/$word" ${below.join(" ")}; and set place "$place/$word"
  end
  test "$place" = "$argv[1]"
end
complete -c ropeway -f
${lines.join("\n")}
`;
}

function optionPart({ name, takes, values }: Flag): string {
  const words = ` -x -a '${values.join(" ")}'`;
  const value = { nothing: "", path: " -r -F", word: words, other: " -x" }[takes];
  return `-l ${name.replace(/^--/, "")}${value}`;
}

function escaped(text: string): string {
  return text.replace(/[\\']/g, "\\$&");
}
