/** Medians and spreads. Medians are used because outliers on a shared machine distort means. */

/** A median with the minimum and maximum of its values. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The middle value, or the mean of the two middle ones. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError("the median needs at least 1 value");
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

/** Median, minimum and maximum. Undefined if there are no values. */
export function spread(values: readonly number[]): Spread | undefined {
  if (values.length === 0) return undefined;
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/** The nearest-rank percentile of sorted values. */
export function percentile(sorted: Float64Array, percent: number): number {
  if (sorted.length === 0) throw new RangeError("a percentile needs at least 1 value");
  const rank = Math.ceil((percent / 100) * sorted.length);
  return sorted[Math.min(sorted.length, Math.max(1, rank)) - 1] as number;
}

/** The values rotated by `by`, so that each one is first in some round. */
export function rotated<T>(values: readonly T[], by: number): T[] {
  const at = values.length === 0 ? 0 : by % values.length;
  return [...values.slice(at), ...values.slice(0, at)];
}
