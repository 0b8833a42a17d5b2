/** Which master owns which slot, as any node of the cluster reports it. */
import type { Connection } from "./connection.ts";
import { type Address, showAddress } from "./endpoint.ts";

const SLOTS = 16_384;
const ASK_WITHIN_MS = 500;

/** [first, last, [host, port, id, ...], replicas...], one per range of slots. */
type SlotRange = readonly [number, number, readonly [string | null, number], ...unknown[]];

/** The table. Only one refresh runs at a time. */
export class SlotTable {
  readonly #roots: readonly Address[];
  readonly #nodeAt: (address: Address) => Connection;
  #addresses: readonly Address[] = [];
  #owners = new Uint16Array(SLOTS);
  #refreshing: Promise<void> | undefined;

  constructor(roots: readonly Address[], nodeAt: (address: Address) => Connection) {
    this.#roots = roots;
    this.#nodeAt = nodeAt;
  }

  /** All masters that own slots. */
  get addresses(): readonly Address[] {
    return this.#addresses;
  }

  addressOf(slot: number): Address | undefined {
    return this.#addresses[(this.#owners[slot] ?? 0) - 1];
  }

  /** Reads the table from the first node that replies. Concurrent callers share one read. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#read().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #read(): Promise<void> {
    let failure: unknown = new Error("no node is known");
    for (const address of [...this.#addresses, ...this.#roots]) {
      try {
        const node = this.#nodeAt(address);
        await node.link(ASK_WITHIN_MS);
        const ranges = await node.send<never>(["CLUSTER", "SLOTS"], { repeatable: true });
        this.#adopt(ranges, address);
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  #adopt(ranges: readonly SlotRange[], source: Address): void {
    const found = new Map<string, Address>();
    const owners = new Uint16Array(SLOTS);
    const numbers = new Map<string, number>();
    for (const [first, last, [host, port]] of ranges) {
      // A node that does not know its own host leaves it empty: it is the host that sent the reply.
      const own = "host" in source ? source.host : "127.0.0.1";
      const address = { host: host || own, port };
      const name = showAddress(address);
      if (!found.has(name)) {
        found.set(name, address);
        numbers.set(name, found.size);
      }
      owners.fill(numbers.get(name) ?? 0, first, last + 1);
    }
    if (found.size === 0) throw new Error("the cluster has no slots");
    this.#addresses = [...found.values()];
    this.#owners = owners;
  }
}
