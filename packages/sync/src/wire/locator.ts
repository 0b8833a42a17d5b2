/**
 * Finds the current server of an endpoint, and connects to it. With Sentinel, the master is
 * looked up before each connection, and its role is checked, because a deposed master still replies.
 */
import { type Address, ConnectFailedError, type Endpoint, showEndpoint } from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";
import { Connection, type ConnectionPlan } from "./connection.ts";

/** How connections are made. */
export interface LocatorOptions {
  readonly connectTimeoutMs: number;
  /** The name in CLIENT LIST. */
  readonly name: string;
  /** Whether the server must be a master, for writing. */
  readonly master: boolean;
  /** See off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** The servers behind one endpoint that is not a cluster. */
export class Locator {
  readonly endpoint: Endpoint;
  readonly #options: LocatorOptions;

  constructor(endpoint: Endpoint, options: LocatorOptions) {
    this.endpoint = endpoint;
    this.#options = options;
  }

  /** Whether another server may take over while the first still replies. */
  get mayMove(): boolean {
    return this.endpoint.topology === "sentinel";
  }

  /** The endpoint's address for messages, without passwords. */
  get where(): string {
    return showEndpoint(this.endpoint);
  }

  /** The address of the server. */
  async address(signal?: AbortSignal): Promise<Address> {
    const { addresses, masterName } = this.endpoint;
    if (masterName === undefined) return addresses[0] as Address;
    let failure: unknown;
    for (const address of addresses) {
      try {
        const found = await this.#ask(address, masterName, signal);
        if (found !== undefined) return found;
        failure = new Error(`${showAddress(address)} knows no master named ${masterName}`);
      } catch (error) {
        failure = error;
      }
    }
    throw new ConnectFailedError(this.where, failure);
  }

  /** The other parameters of a connection to this address. */
  plan(address: Address, signal?: AbortSignal): ConnectionPlan {
    const { username, password, tls } = this.endpoint;
    const { connectTimeoutMs, name, keepOff } = this.#options;
    return { address, username, password, tls, connectTimeoutMs, name, signal, keepOff };
  }

  /** A new connection, in database 0. */
  async connect(signal?: AbortSignal): Promise<Connection> {
    const connection = await Connection.open(this.plan(await this.address(signal), signal));
    if (this.#options.master && this.endpoint.topology === "sentinel") {
      const [role] = await connection.call<readonly Buffer[]>("ROLE");
      if (String(role) !== "master") {
        connection.destroy();
        throw new ConnectFailedError(
          connection.where,
          new Error(`it is a ${role}, not the master`),
        );
      }
    }
    return connection;
  }

  async #ask(address: Address, name: string, signal?: AbortSignal): Promise<Address | undefined> {
    const { sentinelUsername, sentinelPassword, tls } = this.endpoint;
    const connection = await Connection.open({
      address,
      username: sentinelUsername,
      password: sentinelPassword,
      tls,
      connectTimeoutMs: this.#options.connectTimeoutMs,
      signal,
    });
    try {
      const reply = await connection.call<readonly Buffer[] | null>(
        "SENTINEL",
        "GET-MASTER-ADDR-BY-NAME",
        name,
      );
      const [host, port] = reply ?? [];
      return host === undefined ? undefined : { host: String(host), port: Number(port) };
    } finally {
      connection.destroy();
    }
  }
}
