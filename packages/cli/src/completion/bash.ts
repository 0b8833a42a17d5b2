import { choicesOf, flagsTaking, type Place } from "./tree.ts";

/** A script for bash: `source <(ropeway completion bash)`. */
export function bashScript(places: readonly Place[]): string {
  const below = places.map(({ path }) => path).filter((path) => path !== "");
  const replies = places.map(({ path, words, options }) => {
    const all = [...words, ...options].map(({ name }) => name).join(" ");
    return `    '${path}') candidates='${all}' ;;`;
  });
  const choices = choicesOf(places).map(({ after, values }) => {
    const words = `compgen -W '${values.join(" ")}' -- "$current"`;
    return `    ${after.map((place) => `'${place}'`).join("|")}) COMPREPLY=($(${words})); return ;;`;
  });
  return `# bash completion of ropeway
_ropeway() {
  local current=\${COMP_WORDS[COMP_CWORD]} place='' candidates='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$place/\${COMP_WORDS[i]}" in
      ${below.join("|")}) place="$place/\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$place \${COMP_WORDS[COMP_CWORD-1]}" in
${choices.join("\n")}
  esac
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
    ${flagsTaking(places, "path").join("|")}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${flagsTaking(places, "other").join("|")}) COMPREPLY=(); return ;;
  esac
  case "$place" in
${replies.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}
complete -F _ropeway ropeway
`;
}
