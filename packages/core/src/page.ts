/** A part of a long list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** The argument for the next page; absent on the last one. */
  readonly cursor?: string;
}
