import { CONTROL_NAME } from "./control-connection.ts";

/** One connection in CLIENT LIST. */
export interface ListedClient {
  readonly id: string;
  readonly name: string;
  readonly addr: string;
  /** Seconds since it connected. */
  readonly age: string;
  readonly flags: string;
  /** Its last command. */
  readonly cmd: string;
}

/** The connections a test opened, without the testkit's own and those between servers. */
export function foreignClients(list: string): ListedClient[] {
  return list
    .split("\n")
    .filter((line) => line !== "")
    .map(parseLine)
    .filter((client) => client.name !== CONTROL_NAME && !isServer(client));
}

function isServer({ name, flags, cmd }: ListedClient): boolean {
  return /[SM]/.test(flags) || name.startsWith("sentinel-") || cmd === "restore-asking";
}

function parseLine(line: string): ListedClient {
  const fields = new Map(
    line.split(" ").map((field): [string, string] => {
      const cut = field.indexOf("=");
      return [field.slice(0, cut), field.slice(cut + 1)];
    }),
  );
  const get = (name: string): string => fields.get(name) ?? "";
  return {
    id: get("id"),
    name: get("name"),
    addr: get("addr"),
    age: get("age"),
    flags: get("flags"),
    cmd: get("cmd"),
  };
}

/** The description of a connection in a leak report. */
export function describeClient({ id, name, addr, cmd }: ListedClient): string {
  return `client ${name === "" ? "without a name" : `"${name}"`} (id ${id}, from ${addr}, last command ${cmd})`;
}
