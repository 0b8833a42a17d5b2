import { choicesOf, flagsTaking, type Place } from "./tree.ts";

/** A script for zsh: `source <(ropeway completion zsh)`. */
export function zshScript(places: readonly Place[]): string {
  const below = places.map(({ path }) => path).filter((path) => path !== "");
  const replies = places.map(({ path, words, options }) => {
    const all = [...words, ...options].map(({ name, summary }) => `'${name}:${escaped(summary)}'`);
    return `    ('${path}') candidates=(${all.join(" ")}) ;;`;
  });
  const choices = choicesOf(places).map(({ after, values }) => {
    const when = after.map((place) => `'${place}'`).join("|");
    return `    (${when}) compadd -- ${values.join(" ")}; return ;;`;
  });
  return `#compdef ropeway
_ropeway() {
  local place='' word
  local -a candidates
  for word in \${words[2,CURRENT-1]}; do
    case "$place/$word" in
      (${below.join("|")}) place="$place/$word" ;;
    esac
  done
  case "$place \${words[CURRENT-1]}" in
${choices.join("\n")}
  esac
  case "\${words[CURRENT-1]}" in
    (${flagsTaking(places, "path").join("|")}) _files; return ;;
    (${flagsTaking(places, "other").join("|")}) return ;;
  esac
  case "$place" in
${replies.join("\n")}
  esac
  _describe 'ropeway' candidates
}
compdef _ropeway ropeway
`;
}

function escaped(text: string): string {
  return text.replaceAll("'", "'\\''");
}
