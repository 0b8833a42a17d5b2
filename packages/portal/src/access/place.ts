/**
 * Where a request comes from, and where a login comes from, for throttling. One IPv6 customer has at least
 * a whole /64 and could try from a new address each time, so there the network is the place.
 */
import { isIP, isIPv6 } from "node:net";

/** What is needed of a request. */
export interface AddressedRequest {
  /** What a trusted proxy says, or the address of the connection. */
  readonly ip: string;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/**
 * The address of the client. Some proxies add a port, which is another one for each connection. What is no
 * address, as a client can send it through a proxy that only adds to X-Forwarded-For, counts for nothing: then
 * it is the address of the connection.
 */
export function addressOf({ ip, socket }: AddressedRequest): string {
  const [, v4, v6] = /^(?:(\d+\.\d+\.\d+\.\d+):\d+|\[([^\]]*)\](?::\d+)?)$/.exec(ip) ?? [];
  const address = v4 ?? v6 ?? ip;
  return isIP(address) === 0 ? (socket.remoteAddress ?? "-") : address;
}

/** The address, or its /64 network. */
export function placeOf(ip: string): string {
  const v4 = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (v4 !== undefined) return v4;
  const address = ip.split("%", 1)[0] ?? "";
  if (!isIPv6(address)) return ip;
  const [head = "", tail] = address.toLowerCase().split("::");
  const groups = head === "" ? [] : head.split(":");
  // What "::" stands for are zeros; only those among the first four groups matter.
  if (tail !== undefined) {
    const behind = tail === "" ? [] : tail.split(":");
    const missing = 8 - groups.length - behind.length - (tail.includes(".") ? 1 : 0);
    groups.push(...Array.from({ length: missing }, () => "0"), ...behind);
  }
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/64`;
}
