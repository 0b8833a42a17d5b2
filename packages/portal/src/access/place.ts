/**
 * Where a request comes from, and where a login comes from, for throttling. An IPv6 client has at least
 * a whole /64 and could use a new address each time, so the network counts instead of the address.
 */
import { isIP, isIPv6 } from "node:net";

/** The parts of a request that are needed. */
export interface AddressedRequest {
  /** The address that a trusted proxy reports, or that of the connection. */
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
  // "::" stands for zeros; only those among the first four groups matter.
  if (tail !== undefined) {
    const behind = tail === "" ? [] : tail.split(":");
    const missing = 8 - groups.length - behind.length - (tail.includes(".") ? 1 : 0);
    groups.push(...Array.from({ length: missing }, () => "0"), ...behind);
  }
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(":")}::/64`;
}
