import { expect, test } from "vitest";
import { clearCookie, readCookie, setCookie } from "../src/http/cookie.ts";

test("a cookie is found among others, by its whole name", () => {
  expect(readCookie("a=1; session=x=y; session=z; b=2", "session")).toBe("x=y");
  expect(readCookie('  session = "q" ;', "session")).toBe("q");
  expect(readCookie("xsession=1; session2=2; session", "session")).toBeUndefined();
  expect(readCookie(undefined, "session")).toBeUndefined();
  expect(readCookie("__proto__=1", "__proto__")).toBe("1");
});

test("a cookie is set for the site, out of reach of scripts, and cleared with the same attributes", () => {
  const expires = new Date("2026-01-05T09:00:00Z");
  expect(setCookie("s", "rws_a-b", { secure: true, expires })).toBe(
    "s=rws_a-b; Path=/; Expires=Mon, 05 Jan 2026 09:00:00 GMT; HttpOnly; Secure; SameSite=Lax",
  );
  expect(clearCookie("s", { secure: false })).toBe(
    "s=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax",
  );
});

test("what would change the header is refused", () => {
  for (const value of ["a;b", "a\r\nb", "a b", 'a"', "a,b", "ü"]) {
    expect(() => setCookie("s", value, { secure: false })).toThrow(TypeError);
  }
  expect(() => setCookie("s=1", "x", { secure: false })).toThrow(TypeError);
});
