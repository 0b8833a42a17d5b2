/** A part of a long list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Pass it to get the next page. Absent on the last page. */
  readonly cursor?: string;
}
