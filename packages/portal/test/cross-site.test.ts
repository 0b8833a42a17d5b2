import { expect, test } from "vitest";
import { foreignOrigin } from "../src/access/cross-site.ts";

const HOST = "portal.example:7480";

test.each([
  ["a read from anywhere", "GET", { origin: "http://evil.example" }],
  ["a write that no browser sent", "POST", {}],
  ["a write from our own page", "POST", { origin: `http://${HOST}` }],
  ["the same behind a proxy that does TLS", "POST", { origin: `https://${HOST}` }],
  ["a write the browser calls same-origin", "PUT", { "sec-fetch-site": "same-origin" }],
  ["a write typed by the user", "POST", { "sec-fetch-site": "none" }],
  [
    "a write with an Authorization header",
    "POST",
    { origin: "http://evil.example", authorization: "Bearer x" },
  ],
])("%s is fine", (_title, method, headers) => {
  expect(foreignOrigin(method, headers, HOST)).toBeUndefined();
});

test.each([
  ["another site", { origin: "http://evil.example" }, "http://evil.example"],
  ["another port", { origin: "http://portal.example:80" }, "http://portal.example:80"],
  [
    "a subdomain",
    { "sec-fetch-site": "same-site", origin: "http://a.portal.example" },
    "http://a.portal.example",
  ],
  ["a sandboxed frame", { origin: "null" }, "null"],
  ["a site that hides its name", { "sec-fetch-site": "cross-site" }, "cross-site"],
])("a write from %s is refused", (_title, headers, foreign) => {
  expect(foreignOrigin("DELETE", headers, HOST)).toBe(foreign);
});
