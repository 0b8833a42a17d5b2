/**
 * The ticket that submit() returns and poll() accepts: the target and a random id, so that a holder of the ticket
 * can find the response, and no other process can guess it.
 *
 *   demo.slow/0e3f7a2c-5a0e-4b39-9c0e-3f0d3c1b7a55
 */
import { randomUUID } from "node:crypto";
import { InvalidArgumentError } from "@ropeway/core";
import type { Route } from "./route.ts";

/** A ticket and its parts. */
export interface Ticket {
  readonly text: string;
  /** "service.method". */
  readonly target: string;
  readonly id: string;
}

/** A new ticket for a call of this route. */
export function newTicket({ name }: Route): Ticket {
  const id = randomUUID();
  return { text: `${name}/${id}`, target: name, id };
}

/** Reads a ticket. Throws InvalidArgumentError. */
export function readTicket(text: string): Ticket {
  const at = typeof text === "string" ? text.lastIndexOf("/") : -1;
  if (at <= 0 || at === text.length - 1 || text.length > 1_000) {
    throw new InvalidArgumentError("ticket", text, "a ticket that submit() gave");
  }
  return { text, target: text.slice(0, at), id: text.slice(at + 1) };
}
