/**
 * The connection that every part of Ropeway uses. It sends commands and scripts, lends dedicated
 * connections for blocking and for subscriptions, and reports losses. Standalone, Sentinel and
 * Cluster have the same interface.
 */
import type { BlockingConnection } from "./blocking.ts";
import type { SendOptions } from "./connection.ts";
import type { Endpoint } from "./endpoint.ts";
import type { ConnectionLostError } from "./errors.ts";
import type { Logger } from "./logger.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import type { ServerInfo } from "./server-info.ts";
import type { Subscriber } from "./subscriber.ts";

/** A connected Redis. */
export interface Redis extends AsyncDisposable {
  readonly topology: Endpoint["topology"];
  /** The server's address for messages, without passwords. */
  readonly where: string;
  readonly connected: boolean;
  /** The server's family and version, for features such as BLMPOP. */
  readonly server: ServerInfo;
  readonly logger: Logger;

  /**
   * Sends one command. All commands of one tick are sent in one write. Do not change a Buffer before the reply. Not for
   * commands that change how a connection replies, such as SUBSCRIBE, MONITOR, HELLO and CLIENT REPLY.
   */
  send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options?: SendOptions,
  ): Promise<T>;

  /** Runs a script; on Cluster all of `keys` must share a hash tag. */
  run<T>(script: Script<T>, keys: readonly string[], args: readonly Argument[]): Promise<T>;

  /** Opens a dedicated connection for commands that block; `key` selects the node. */
  blocking(purpose: string, key: string): Promise<BlockingConnection>;

  /** Opens a dedicated connection for PUBLISH/SUBSCRIBE. */
  subscriber(purpose: string): Promise<Subscriber>;

  /** Calls the listener each time a connection is lost; returns an unsubscribe function. */
  onLost(listener: (error: ConnectionLostError) => void): () => void;

  /** Calls the listener each time a connection is ready again; returns an unsubscribe function. */
  onReady(listener: () => void): () => void;

  /** Closes this connection and everything lent by blocking() and subscriber(). */
  close(): Promise<void>;
}
