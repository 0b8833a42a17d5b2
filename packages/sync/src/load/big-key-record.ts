/** A key whose value was too large for one transaction. */
export interface BigKeyRecord {
  readonly key: string;
  /** The database at the target. */
  readonly db: number;
  /** Its Redis type, such as hash. */
  readonly type: string;
  /** The size of its value in the snapshot. */
  readonly bytes: number;
  readonly elements: number;
  /** How it was written. */
  readonly path: "big";
  readonly durationMs: number;
}
