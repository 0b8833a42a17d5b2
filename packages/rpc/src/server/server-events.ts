/** The events that a server emits. */
import type { EventMap } from "@ropeway/core";
import type { CallContext } from "./call-context.ts";

/** The events of a server. */
export interface ServerEvents extends EventMap {
  /** A handler threw an error that it had not declared. */
  failed: [call: CallContext, error: unknown];
  /** The worker counted as dead for a while; its sessions may be on other nodes. */
  lapsed: [];
  /** A call was refused because of load. */
  shed: [service: string];
  /** A message that cannot be run was moved to the dead list. */
  setAside: [list: string, reason: unknown];
  /** Calls of a dead worker were put back into their list. */
  reclaimed: [worker: string, calls: { readonly back: number; readonly aside: number }];
}
