/** A short hash tag for every slot of a cluster, so that a key of the task can be in the same slot as any other key. */
import { keySlot } from "../command/slot.ts";

/** How many slots a cluster has. */
export const SLOTS = 16_384;

let table: readonly string[] | undefined;

/** A string whose slot is the given one. */
export function slotTag(slot: number): string {
  table ??= findTags();
  return table[slot] as string;
}

function findTags(): string[] {
  const tags: string[] = new Array(SLOTS);
  let missing = SLOTS;
  for (let n = 0; missing > 0; n++) {
    const tag = n.toString(36);
    const slot = keySlot(Buffer.from(tag));
    if (tags[slot] !== undefined) continue;
    tags[slot] = tag;
    missing -= 1;
  }
  return tags;
}
