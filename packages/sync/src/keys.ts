/** What all our keys begin with. */
export const OWN_PREFIX = "ropeway:sync:";

const OWN_PREFIX_BYTES = Buffer.from(OWN_PREFIX);

/** Whether a key is one of ours. */
export function isOwnKey(key: Buffer): boolean {
  return (
    key.length >= OWN_PREFIX_BYTES.length &&
    key[0] === OWN_PREFIX_BYTES[0] &&
    OWN_PREFIX_BYTES.compare(key, 0, OWN_PREFIX_BYTES.length) === 0
  );
}

export function checkpointKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:checkpoint:${shard}`;
}

export function laneKey(task: string, shard: number, lane: number): string {
  return `${OWN_PREFIX}{${task}}:load:${shard}:${lane}`;
}

export function expiriesKey(task: string, shard: number): string {
  return `${OWN_PREFIX}{${task}}:expiries:${shard}`;
}

export function discardedKey(task: string): string {
  return `${OWN_PREFIX}{${task}}:discarded`;
}

export function bigKeysKey(task: string): string {
  return `${OWN_PREFIX}{${task}}:bigkeys`;
}
