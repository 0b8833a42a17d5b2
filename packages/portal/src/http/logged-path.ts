/**
 * A path as it may be logged. Some paths contain a whole URL, such as the endpoint
 * of a delivery, and such URLs hold secrets: a password, a token in the path or in the query. Only their
 * origin is logged.
 */
import { pathOf } from "./problems.ts";

/** The path of a request's URL, without its query and without the secrets of URLs inside it. */
export function loggedPath(url: string): string {
  const path = pathOf(url);
  // A URL in one segment, encoded once or twice, or written plainly at the end of the path.
  const masked = path.split("/").map(maskSegment).join("/");
  return masked.replace(/(https?:\/{1,2})([^/]*).*$/i, (_all, scheme: string, rest: string) => {
    return `${scheme}${rest.replace(/^.*@/, "")}/***`;
  });
}

function maskSegment(segment: string): string {
  const origin = originOf(segment);
  return origin === undefined ? segment : encodeURIComponent(`${origin}/***`);
}

function originOf(text: string): string | undefined {
  for (let decoded = text, round = 0; round < 3; round++) {
    if (/^https?:\/\//i.test(decoded) && URL.canParse(decoded)) return new URL(decoded).origin;
    try {
      const next = decodeURIComponent(decoded);
      if (next === decoded) break;
      decoded = next;
    } catch {
      break;
    }
  }
  const base64 = Buffer.from(text, "base64url").toString("latin1");
  return /^https?:\/\//i.test(base64) && URL.canParse(base64) ? new URL(base64).origin : undefined;
}
