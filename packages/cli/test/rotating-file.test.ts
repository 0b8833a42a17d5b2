import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { RotatingFile } from "../src/rotating-file.ts";

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "ropeway-log-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test("a log that is full is set aside while it is written, and no line is lost or cut", () => {
  const path = join(folder(), "portal.log");
  writeFileSync(path, "an earlier line\n");
  const file = new RotatingFile(path, 100);
  for (let i = 0; i < 20; i++) file.write(`line ${i} ..........\n`);
  expect(statSync(path).size).toBeLessThanOrEqual(100);
  expect(statSync(`${path}.1`).size).toBeLessThanOrEqual(100);
  expect(statSync(`${path}.1`).size).toBeGreaterThan(80); // it was set aside because it was full
  const lines = (readFileSync(`${path}.1`, "utf8") + readFileSync(path, "utf8")).trim().split("\n");
  expect(lines.at(-1)).toBe("line 19 ..........");
  expect(lines.every((line) => /^line \d+ \.{10}$/.test(line))).toBe(true);
});

test("a log that somebody removed or moved away is begun anew when it would be full", () => {
  const path = join(folder(), "portal.log");
  const file = new RotatingFile(path, 100);
  file.write("removed\n");
  rmSync(path);
  for (let i = 0; i < 20; i++) file.write(`line ${i} ..........\n`);
  expect(readFileSync(path, "utf8")).toContain("line 19 ");
  expect(statSync(path).size).toBeLessThanOrEqual(100);
});

test("a folder that is gone does not end the program", () => {
  const home = folder();
  const path = join(home, "portal.log");
  const file = new RotatingFile(path, 10);
  rmSync(home, { recursive: true });
  file.write("first line\n");
  file.write("second line\n");
  expect(existsSync(path)).toBe(false);
});
