/**
 * Addresses that may hold a password. Every user of a machine can read the command lines of its
 * processes, so an address can also come from where only its owner can read it:
 *
 *   --from redis://host:6379     as it stands
 *   --from env:OLD_URL           from an environment variable
 *   --from @old.url              from the first line of a file
 *   --from -                     from standard input, one line for each `-`
 *
 * A password on the command line still works, because scripts do it, but the program prints a warning and removes it from
 * the process list as soon as it runs.
 */
import { resolve } from "node:path";
import { withoutCredentials, withoutParameters } from "@ropeway/core/internal";
import type { Context } from "./context.ts";
import { UsageError } from "./errors.ts";
import { fileText } from "./file-text.ts";
import { payloadOf, readInput } from "./terminal/input.ts";

/** The help text of such an option. */
export const ADDRESS_HELP = `Every user of the machine can read command lines, so keep passwords out of them: an address can also be
\`env:NAME\` (an environment variable), \`@FILE\` (the first line of a file) or \`-\` (a line of standard input).`;

// Every repetition is bounded, because an argument may be a document of 100 KB.
const SECRET =
  /(?<head>[a-z][a-z0-9+.-]{0,19}:\/\/[^:@/?#\s]*):[^/?#\s]*@|(?<name>[?&][^=&#?\s]{0,99}(?:passw|secret|token|credential|sig)[^=&#?\s]{0,99}=)[^&#\s]+/gi;
const SECRET_FIELD =
  /("[^"]{0,99}(?:passw|secret|token)[^"]{0,99}"[ \t\r\n]{0,99}:[ \t\r\n]{0,99})"[^"]+"/gi;

const SECRET_PARAMETER = /passw|secret|token|credential|sig/i;

/** A command line without its passwords, as it may be shown. */
export function maskedArgument(argument: string): string {
  const [, option = "", value = ""] = /^(--[\w-]+=)?(.*)$/s.exec(argument) ?? [];
  const given = asFetched(value);
  const isAddress = /^[a-z][a-z0-9+.-]{0,19}:\/\//i.test(given);
  const address = isAddress
    ? withoutParameters(withoutCredentials(given, "***") ?? given, SECRET_PARAMETER, "***")
    : given;
  return `${option}${address}`
    .replace(SECRET, (_, head?: string, name?: string) =>
      head === undefined ? `${name}***` : `${head}:***@`,
    )
    .replace(SECRET_FIELD, '$1"***"');
}

/**
 * An HTTP address that has a password as fetch() reads it: also https:///user:password@host, or with a space in it.
 * Anything else as it is.
 */
function asFetched(value: string): string {
  if (!/^https?:/i.test(value) || !URL.canParse(value)) return value;
  const url = new URL(value);
  return url.password === "" ? value : url.href;
}

/** Warns if the value of an option on the command line contains a password. */
export function warnOfSecret(context: Context, option: string): void {
  const given = context.options[option];
  if (typeof given !== "string" || maskedArgument(given) === given) return;
  context.output.warn(
    `--${option} has a password on the command line, where other users of this machine can read it: use env:NAME, @FILE or -`,
  );
}

/** The addresses that these options name; an option that was not given is left out. */
export async function addressesOf<const N extends string>(
  context: Context,
  options: readonly N[],
): Promise<Partial<Record<N, string>>> {
  const lines = options.some((option) => context.options[option] === "-")
    ? (await readInput(context, "the address")).toString("utf8").split(/\r?\n/)
    : [];
  const found: Partial<Record<N, string>> = {};
  for (const option of options) {
    const given = context.options[option];
    if (given === undefined) continue;
    warnOfSecret(context, option);
    found[option] = addressOf(context, option, { given: String(given), lines });
  }
  return found;
}

/** The string of an option: given directly, read from a file, or from standard input. */
export async function contentOf(context: Context, option: string): Promise<string | undefined> {
  const given = context.options[option];
  if (given === undefined) return undefined;
  if (given === "-") return payloadOf(context, given, `--${option}`);
  const text = String(given);
  if (text.startsWith("@")) return fileText(resolve(context.cwd, text.slice(1)));
  warnOfSecret(context, option);
  return text;
}

function addressOf(
  context: Context,
  option: string,
  { given, lines }: { readonly given: string; readonly lines: string[] },
): string {
  const named = (address: string | undefined, source: string): string => {
    const line = address?.trim();
    if (line) return line;
    throw new UsageError(`--${option} is ${given}, but ${source}`);
  };
  if (given === "-") return named(lines.shift(), "standard input has no line for it");
  if (given.startsWith("env:")) {
    return named(context.env[given.slice(4)], "that environment variable is not set");
  }
  if (!given.startsWith("@")) return given;
  const [line] = fileText(resolve(context.cwd, given.slice(1))).split(/\r?\n/, 1);
  return named(line, "that file is empty");
}
