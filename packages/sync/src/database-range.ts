/**
 * Refuses a database that the target does not have. SELECT would fail inside the transaction, and the commands after it
 * would change the database selected before, so such data is refused before it is sent.
 */
import { CommandRefusedError } from "./errors.ts";

/** Throws CommandRefusedError if a target with this many databases does not have database `db`. */
export function requireDatabase(db: number, databases: number): void {
  if (db < databases) return;
  const reason =
    databases === 1
      ? "the target has only database 0. Choose one database with dbMap, such as { 0: 0 }"
      : `the target has ${databases} databases. Raise databases at the target, or choose others with dbMap`;
  throw new CommandRefusedError(`data for database ${db}`, reason);
}
