/** The slots of a node, read from its own line in CLUSTER NODES. */

/** The slots of one master. */
export interface Holdings {
  readonly slots: { has(slot: number): boolean };
  /** Slots that are being moved to it. */
  readonly importing: ReadonlySet<number>;
  /** Slots that are being moved away from it. */
  readonly migrating: ReadonlySet<number>;
}

// <id> <host>:<port>@<bus> myself,master - <ping> <pong> <epoch> <link> 0-5460 7000 [93-<-<id>] [94->-<id>]
const FIRST_SLOT = 8;

/** Parses the line of the node itself. */
export function holdingsOf(nodes: string): Holdings {
  const own = nodes.split("\n").find((line) => /\bmyself\b/.test(line)) ?? "";
  const ranges: (readonly [first: number, last: number])[] = [];
  const importing = new Set<number>();
  const migrating = new Set<number>();
  for (const word of own.trim().split(" ").slice(FIRST_SLOT)) {
    const moving = /^\[(\d+)-([<>])-/.exec(word);
    if (moving !== null) (moving[2] === "<" ? importing : migrating).add(Number(moving[1]));
    else {
      const [first, last = first] = word.split("-").map(Number);
      ranges.push([first as number, last as number]);
    }
  }
  const has = (slot: number) => ranges.some(([first, last]) => first <= slot && slot <= last);
  return { slots: { has }, importing, migrating };
}
