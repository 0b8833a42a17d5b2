/**
 * Refuses requests from web pages of other sites on all our ports, with or without accounts.
 *
 * DNS rebinding: a page on evil.example lets its name resolve to 127.0.0.1 and then asks "its own"
 * server, which is us. The browser sees one origin, but the Host header still says evil.example. So a
 * request is served only if its Host is
 *
 *   - a loopback name: localhost, *.localhost;
 *   - an IP address: a page's own address is then the address it was loaded from, and no name can be
 *     pointed elsewhere;
 *   - the name we were told to listen on, or one of the configured hosts. "*" allows every name.
 *
 * Cross-site requests: browsers say where a request comes from, in Sec-Fetch-Site or at least in Origin;
 * a program sends neither. A request from a page of another origin is refused. Allowed are links to a
 * page (a top-level navigation by GET) and requests with an Authorization header, since no page can make
 * a browser send that without our consent (CORS, which we do not give). Login is included: being signed
 * in as someone else is an attack too.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import type { RopewayError } from "@ropeway/core";
import { CrossSiteError, UnknownHostError } from "../errors.ts";

/** The parts of a request that the guard checks. */
export interface GuardedRequest {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** The Host header, or the one that a trusted proxy reports; "" if there is none. */
  readonly host: string;
}

/** The requests that one port serves. */
export class HostGuard {
  readonly #hosts: ReadonlySet<string>;
  /** The host that was served last: most clients of a port send the same one. */
  #last = "";

  /** `hosts` are the names by which clients reach this port, besides loopback names and IP addresses. */
  constructor(hosts: readonly string[] = []) {
    this.#hosts = new Set(hosts.map((host) => host.toLowerCase()));
  }

  /** Why the request must not be served; undefined if it may be. */
  refusal(request: GuardedRequest): RopewayError | undefined {
    if (!this.#serves(request.host)) return new UnknownHostError(request.host);
    const foreign = foreignOrigin(request);
    return foreign === undefined ? undefined : new CrossSiteError(foreign);
  }

  #serves(host: string): boolean {
    if (host === this.#last || host === "") return true; // "" is HTTP/1.0; every browser sends one
    const name = nameOf(host);
    if (name === undefined) return false;
    const isLocal = isIP(name) !== 0 || name === "localhost" || name.endsWith(".localhost");
    if (!isLocal && !this.#hosts.has("*") && !this.#hosts.has(name)) return false;
    this.#last = host;
    return true;
  }
}

/** "[::1]:7480" is "::1", "Portal.example:80" is "portal.example"; undefined if it is not a host. */
function nameOf(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host);
  const name = match?.[1] ?? match?.[2];
  return name?.toLowerCase().replace(/\.$/, "");
}

/** The foreign origin that a browser names for the request; undefined if the request is allowed. */
export function foreignOrigin({ method, headers, host }: GuardedRequest): string | undefined {
  if (headers.authorization !== undefined) return undefined;
  const { origin } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined) {
    const isOurs = site === "same-origin" || site === "none";
    return isOurs || isLink(method, headers) ? undefined : (origin ?? String(site));
  }
  if (origin === undefined) return undefined;
  return hostOf(origin) === host ? undefined : origin;
}

/** Whether the request follows a link to one of our pages. */
function isLink(method: string, headers: IncomingHttpHeaders): boolean {
  return (
    (method === "GET" || method === "HEAD") &&
    headers["sec-fetch-mode"] === "navigate" &&
    headers["sec-fetch-dest"] === "document"
  );
}

function hostOf(origin: string): string | undefined {
  try {
    return new URL(origin).host;
  } catch {
    return undefined; // "null", from a sandboxed frame or a file
  }
}
