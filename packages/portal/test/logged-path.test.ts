import { expect, test } from "vitest";
import { loggedPath } from "../src/http/logged-path.ts";

const SECRET = "https://user:pa55@hooks.example:8443/services/T0K3N?key=s3cret";

test("of a URL inside a path only the origin is logged, however it is encoded", () => {
  const once = encodeURIComponent(SECRET);
  const twice = encodeURIComponent(once);
  const base64 = Buffer.from(SECRET).toString("base64url");
  for (const segment of [once, twice, base64, SECRET]) {
    const logged = loggedPath(`/v3/queue/key/post/${segment}`);
    expect(logged).toMatch(/^\/v3\/queue\/key\/post\//);
    expect(logged).not.toMatch(/pa55|T0K3N|s3cret|user/);
    expect(logged).toContain("hooks.example");
  }
});

test("other paths stay as they are, without their query", () => {
  for (const path of ["/", "/api/jobs/queues/mail%20a/jobs/1", "/%", "/a/%2Fb"]) {
    expect(loggedPath(`${path}?token=secret`)).toBe(path);
  }
});
