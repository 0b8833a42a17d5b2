/**
 * Finds the master that the sentinels agree on. It is looked up before every link. In addition, a subscription to
 * +switch-master gives up links to a deposed master that still replies.
 */
import { Connection, type ConnectionPlan } from "./connection.ts";
import { type Address, type Endpoint, showAddress } from "./endpoint.ts";
import { ConnectFailedError } from "./errors.ts";
import { Link, type LinkOptions } from "./link.ts";
import { within } from "./wait.ts";

/** The part of a ConnectionPlan that sentinels need. */
export type SentinelPlan = Pick<
  ConnectionPlan,
  "where" | "link" | "offlineWaitMs" | "closeWithinMs" | "logger"
>;

/** The sentinels of one master. */
export class Sentinels {
  readonly #endpoint: Endpoint;
  readonly #plan: SentinelPlan;
  /** Known sentinels; the one that replied last comes first. */
  #addresses: readonly Address[];

  constructor(endpoint: Endpoint, plan: SentinelPlan) {
    this.#endpoint = endpoint;
    this.#addresses = endpoint.addresses;
    this.#plan = plan;
  }

  /** The address of the current master. */
  async master(signal: AbortSignal): Promise<Address> {
    const { masterName = "" } = this.#endpoint;
    let failure: unknown;
    for (const address of this.#addresses) {
      try {
        const master = await this.#ask(address, signal);
        if (master !== undefined) {
          this.#preferred(address);
          return master;
        }
        failure = new Error(`no sentinel knows a master named ${masterName}`);
      } catch (error) {
        failure = error;
      }
    }
    throw new ConnectFailedError(this.#plan.where, failure);
  }

  /** Refuses a server that is not the master, or no longer. */
  async checkRole(link: Link): Promise<void> {
    const role = (await link.send(["ROLE"])) as readonly unknown[];
    if (role[0] !== "master") throw new Error(`the server is a ${String(role[0])}, not the master`);
  }

  /** Calls `onSwitch` whenever the sentinels announce a new master; runs until closed. */
  watch(onSwitch: () => void): Connection {
    let next = 0;
    return new Connection({
      ...this.#plan,
      where: `the sentinels of ${this.#endpoint.masterName}`,
      link: this.#linkOptions(),
      locate: async () => this.#addresses[next++ % this.#addresses.length] as Address,
      prepare: (link) =>
        link.subscribe("+switch-master", (message) => {
          if (String(message).split(" ", 1)[0] === this.#endpoint.masterName) onSwitch();
        }),
    });
  }

  async #ask(address: Address, signal: AbortSignal): Promise<Address | undefined> {
    const link = await Link.open({ ...this.#linkOptions(), address }, signal);
    try {
      const name = this.#endpoint.masterName ?? "";
      const asked = link.send(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
      const { connectTimeoutMs } = this.#plan.link;
      const bounds = {
        timeoutMs: connectTimeoutMs,
        signal,
        what: `asking ${showAddress(address)}`,
      };
      const reply = await within(asked, bounds);
      const [host, port] = (reply ?? []) as readonly string[];
      return host === undefined ? undefined : { host, port: Number(port) };
    } finally {
      link.retire(new Error("asked"));
    }
  }

  #preferred(address: Address): void {
    const others = this.#addresses.filter((each) => showAddress(each) !== showAddress(address));
    this.#addresses = [address, ...others];
  }

  #linkOptions(): Omit<LinkOptions, "address"> {
    return {
      ...this.#plan.link,
      username: this.#endpoint.sentinelUsername,
      password: this.#endpoint.sentinelPassword,
      db: undefined,
      sentinel: true,
    };
  }
}
