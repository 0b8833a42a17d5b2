/**
 * Keeps deliveries away from addresses that only we can reach (SSRF). The guard resolves a name, checks every
 * address it has, and the connection is made to the returned addresses. There is no second look-up that could
 * return another address (DNS rebinding).
 *
 * All addresses are blocked that are not public unicast: for IPv6 all outside 2000::/3, so that every
 * form of an IPv4 address inside an IPv6 one is covered. An operator can allow others by address, network,
 * name, or the words "loopback" and "private".
 */
import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import { InvalidOptionError } from "@ropeway/core";
import { BlockedEndpointError } from "../errors.ts";

/** An address and its family, as Node's sockets take it. */
export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** Finds all addresses of a name. */
export type Resolver = (hostname: string) => Promise<readonly ResolvedAddress[]>;

const BLOCKED = [
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link-local, cloud metadata
  "172.16.0.0/12", // private
  "192.0.0.0/24", // protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relay
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, broadcast
  "168.63.129.16/32", // Azure metadata: a public address that only its machines reach
  "2001::/23", // protocol assignments, Teredo: a v4 address inside
  "2001:db8::/32", // documentation
  "2002::/16", // 6to4: a v4 address inside
  "3fff::/20", // documentation
];

/** The only range of IPv6 that is public unicast. */
const PUBLIC_V6 = "2000::/3";

const WORDS: Readonly<Record<string, readonly string[]>> = {
  loopback: ["127.0.0.0/8", "::1/128"],
  private: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
};

/** Decides which addresses deliveries may be sent to. */
export class AddressGuard {
  readonly #blocked = new BlockList();
  readonly #publicV6 = new BlockList();
  readonly #allowed = new BlockList();
  readonly #allowedNames = new Set<string>();
  readonly #resolve: Resolver;

  constructor(allow: readonly string[] = [], resolve: Resolver = resolveAll) {
    this.#resolve = resolve;
    for (const network of BLOCKED) addNetwork(this.#blocked, network);
    addNetwork(this.#publicV6, PUBLIC_V6);
    for (const entry of allow) this.#allow(entry.trim().toLowerCase());
  }

  /** The addresses of a host, all of them allowed; throws BlockedEndpointError if any is not. */
  async addresses(hostname: string): Promise<readonly ResolvedAddress[]> {
    const host = bareHost(hostname);
    const family = isIP(host);
    const found =
      family === 0 ? await this.#resolve(host) : [{ address: host, family: family as 4 | 6 }];
    if (found.length === 0) throw new Error(`${host} has no address`);
    if (!this.#allowedNames.has(host)) for (const each of found) this.#check(host, each.address);
    return found;
  }

  /** Refuses a URL whose host is a blocked literal address, without any look-up. */
  checkLiteral(url: string): void {
    const host = bareHost(new URL(url).hostname);
    if (isIP(host) !== 0) this.#check(host, host);
  }

  #check(host: string, address: string): void {
    const bare = plainAddress(address);
    const family = isIP(bare) === 4 ? "ipv4" : "ipv6";
    if (this.#allowed.check(bare, family)) return;
    const isPublic = family === "ipv4" || this.#publicV6.check(bare, family);
    if (isPublic && !this.#blocked.check(bare, family)) return;
    const shown = host === bare ? host : `${host} (${bare})`;
    throw new BlockedEndpointError(
      shown,
      "the address is not public, and merge.allow (ROPEWAY_MERGE_ALLOW) does not list it",
    );
  }

  #allow(entry: string): void {
    if (entry === "") return;
    const networks = Object.hasOwn(WORDS, entry) ? WORDS[entry] : undefined;
    if (networks !== undefined) for (const network of networks) addNetwork(this.#allowed, network);
    else if (isIP(bareHost(entry)) !== 0) addNetwork(this.#allowed, bareHost(entry));
    else if (entry.includes("/")) addNetwork(this.#allowed, entry);
    else if (/^[a-z0-9.-]+$/.test(entry)) this.#allowedNames.add(bareHost(entry));
    else throw notAllowed(entry);
  }
}

async function resolveAll(hostname: string): Promise<readonly ResolvedAddress[]> {
  return (await lookup(hostname, { all: true, verbatim: true })) as ResolvedAddress[];
}

/** The address without the zone of a link-local address; a v4-mapped address becomes its v4 address. */
function plainAddress(address: string): string {
  const bare = address.replace(/%.*$/, "");
  const mapped = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|([0-9a-f]{1,4}):([0-9a-f]{1,4}))$/i.exec(bare);
  if (mapped === null) return bare;
  if (mapped[1] !== undefined) return mapped[1];
  const bits = (Number.parseInt(mapped[2] ?? "", 16) << 16) | Number.parseInt(mapped[3] ?? "", 16);
  return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).join(".");
}

/** The host without the brackets of a v6 literal and the final dot of a fully qualified name. */
function bareHost(hostname: string): string {
  return hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, "")
    .replace(/\.$/, "");
}

function addNetwork(list: BlockList, network: string): void {
  const [address = "", bits] = network.split("/");
  const family = isIP(address);
  const longest = family === 4 ? 32 : 128;
  const prefix = bits === undefined ? longest : Number(bits);
  if (family === 0 || !Number.isInteger(prefix) || prefix < 0 || prefix > longest) {
    throw notAllowed(network);
  }
  list.addSubnet(address, prefix, family === 4 ? "ipv4" : "ipv6");
}

function notAllowed(entry: string): InvalidOptionError {
  const allowed = "an address, a network such as 10.1.0.0/16, a host name, loopback or private";
  return new InvalidOptionError("allow", entry, allowed);
}
