/** HTTP Basic: user name and password in one header. */

/** The credentials in an Authorization header; undefined if it has another scheme, or no colon. */
export function basicCredentials(
  authorization: string | undefined,
): { readonly username: string; readonly password: string } | undefined {
  const [scheme = "", encoded = ""] = (authorization ?? "").split(" ", 2);
  if (scheme.toLowerCase() !== "basic") return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 0) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
