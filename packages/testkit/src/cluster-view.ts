import { parseInfo } from "./redis-info.ts";
import type { RedisServer } from "./redis-server.ts";

interface NodeLine {
  readonly id: string;
  readonly port: number;
  readonly flags: readonly string[];
  readonly masterId: string;
  readonly connected: boolean;
  readonly ranges: readonly (readonly [from: number, to: number])[];
}

/** The state of the cluster as one node reports it in CLUSTER INFO and CLUSTER NODES. */
export class ClusterView {
  readonly ok: boolean;
  readonly #text: string;
  readonly #nodes: readonly NodeLine[];

  static async of(node: RedisServer): Promise<ClusterView> {
    const info = parseInfo(String(await node.command("CLUSTER", "INFO")));
    const text = String(await node.command("CLUSTER", "NODES"));
    return new ClusterView(info.get("cluster_state") === "ok", text);
  }

  constructor(ok: boolean, text: string) {
    this.ok = ok;
    this.#text = text;
    this.#nodes = text
      .split("\n")
      .filter((line) => line !== "")
      .map(parseLine);
  }

  ownerOf(slot: number): string | undefined {
    const owns = ({ ranges }: NodeLine) => ranges.some(([from, to]) => from <= slot && slot <= to);
    return this.#nodes.find(owns)?.id;
  }

  firstSlotOf(id: string): number {
    return this.#node(id)?.ranges[0]?.[0] ?? -1;
  }

  replicasOf(masterId: string): string[] {
    return this.#nodes.filter((node) => node.masterId === masterId).map(({ id }) => id);
  }

  portOf(id: string): number | undefined {
    return this.#node(id)?.port;
  }

  isMaster(id: string): boolean {
    return this.#node(id)?.flags.includes("master") ?? false;
  }

  /** Whether the node knows all `count` nodes, is connected to them and flags none as failing. */
  healthy(count: number): boolean {
    const suspect = /fail|handshake|noaddr/;
    const well = ({ connected, flags }: NodeLine) => connected && !suspect.test(flags.join());
    return this.#nodes.length === count && this.#nodes.every(well);
  }

  toString(): string {
    return this.#text;
  }

  #node(id: string): NodeLine | undefined {
    return this.#nodes.find((node) => node.id === id);
  }
}

// <id> <host>:<port>@<bus> <flags> <master|-> <ping> <pong> <epoch> <link> <slot|from-to|[moving]> ...
function parseLine(line: string): NodeLine {
  const [id = "", address = "", flags = "", masterId = "", , , , link, ...slots] = line.split(" ");
  const ranges = slots
    .filter((slot) => !slot.startsWith("["))
    .map((slot): [number, number] => {
      const [from = "", to = from] = slot.split("-");
      return [Number(from), Number(to)];
    });
  const port = Number(address.match(/:(\d+)/)?.[1]);
  return { id, port, flags: flags.split(","), masterId, connected: link === "connected", ranges };
}
