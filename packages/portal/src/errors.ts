/** Every error the portal can throw. What each becomes in HTTP is in problems.ts. */
import { RopewayError } from "@ropeway/core";

/** More work than we take on at once; it was refused before it began. */
export class OverloadedError extends RopewayError {
  constructor(what: string) {
    super("OVERLOADED", `${what}; try again later`);
  }
}

/** start() on a portal that was started or closed before. */
export class PortalStateError extends RopewayError {
  constructor(state: string) {
    super("PORTAL_STATE", `the portal cannot be started: it is ${state} already`, {
      details: { state },
    });
  }
}
