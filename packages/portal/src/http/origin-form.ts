/**
 * The target of a request is usually a path. Proxies, and clients that are told to use one, may send the whole URL,
 * and every server must accept it (RFC 9112, section 3.2.2). The host of the URL then replaces the Host header.
 */
import type { IncomingHttpHeaders } from "node:http";

/** A request as Node's parser returns it. */
interface Targeted {
  readonly url?: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

/** The path and query of a request. Sets the Host header if the request names a whole URL. */
export function originForm({ url = "", headers }: Targeted): string {
  if (url.startsWith("/")) return url;
  const [, host, rest] = /^https?:\/\/([^/?#]+)(.*)$/is.exec(url) ?? [];
  if (host === undefined || rest === undefined) return url; // such as "*"
  headers.host = host;
  return rest.startsWith("/") ? rest : `/${rest}`;
}
