import fc from "fast-check";
import stringWidth from "string-width";
import { expect, test } from "vitest";
import { tableLines, wrap } from "../../src/terminal/table.ts";

const lines = (head: string[], rows: string[][], width: number) =>
  tableLines({
    head,
    rows: rows.map((row) => row.map((text) => ({ text }))),
    width,
    colours: false,
  });

test("columns are as wide as their widest cell, also in scripts with wide characters", () => {
  expect(
    lines(
      ["A", "B"],
      [
        ["队列", "x"],
        ["a", "yy"],
      ],
      80,
    ),
  ).toEqual(["A     B", "队列  x", "a     yy"]);
});

test("a table that is too wide continues long cells below, between words", () => {
  const rows = [["k1", "connect to the receiver failed", "3"]];
  expect(lines(["KEY", "ERROR", "N"], rows, 26)).toEqual([
    "KEY  ERROR               N",
    "k1   connect to the      3",
    "     receiver failed",
  ]);
});

test("where the words do not fit side by side, each row becomes a record", () => {
  const rows = [
    ["http://127.0.0.1:9000/hook", "refused"],
    ["http://127.0.0.1:9000/other", ""],
  ];
  expect(lines(["URL", "ERROR"], rows, 30)).toEqual([
    "URL    http://127.0.0.1:9000/hook",
    "ERROR  refused",
    "",
    "URL    http://127.0.0.1:9000/other",
  ]);
});

test("of four or more columns, the one with the longest word continues below its row", () => {
  const head = ["AT", "RESULT", "MS", "URL", "REASON"];
  const rows = [
    ["09:00", "delivered", "21", "http://127.0.0.1:9000/hook", ""],
    ["09:01", "delivered", "3", "http://127.0.0.1:9000/other", ""],
  ];
  expect(lines(head, rows, 30)).toEqual([
    "AT     RESULT     MS",
    "  URL",
    "09:00  delivered  21",
    "  http://127.0.0.1:9000/hook",
    "09:01  delivered  3",
    "  http://127.0.0.1:9000/other",
  ]);
});

test("columns without a value are left out of a table that would be too wide", () => {
  expect(lines(["ID", "REASON", "STATE"], [["node_local", "", "online"]], 18)).toEqual([
    "ID          STATE",
    "node_local  online",
  ]);
});

test("no width breaks a word, and only a single word can be too long for its line", () => {
  const word = fc.stringMatching(/^[a-z]{1,12}$/);
  const cell = fc.array(word, { maxLength: 5 }).map((words) => words.join(" "));
  const row = fc.tuple(cell, cell, cell);
  fc.assert(
    fc.property(fc.array(row, { maxLength: 5 }), fc.integer({ min: 1, max: 60 }), (rows, width) => {
      const printed = lines(["ONE", "TWO", "THREE"], rows, width);
      const words = new Set(printed.flatMap((line) => line.split(/ +/)));
      for (const each of rows.flat().flatMap((text) => text.split(" "))) {
        if (each !== "") expect(words).toContain(each);
      }
      for (const line of printed.filter((each) => stringWidth(each) > width)) {
        expect(line.trim().split(/ +/).length).toBeLessThanOrEqual(2); // a record's name and one word
      }
    }),
  );
});

test("a word longer than the line has a line of its own", () => {
  expect(wrap("a bbbbbbbb c", 4)).toEqual(["a", "bbbbbbbb", "c"]);
});
