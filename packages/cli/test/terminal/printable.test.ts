import fc from "fast-check";
import { expect, test } from "vitest";
import { printable, printableJson, printableLines } from "../../src/terminal/printable.ts";

test("control characters, reordering characters and lone surrogates are escaped", () => {
  expect(printable("\u001b[2Jhi\u0007\u009b31m\u007f")).toBe(
    "\\u001b[2Jhi\\u0007\\u009b31m\\u007f",
  );
  expect(printable("a\tb\r\nc")).toBe("a\\tb\\r\\nc");
  expect(printable("invoice\u202etxt.exe\u2066\u200b\u2028")).toBe(
    "invoice\\u202etxt.exe\\u2066\\u200b\\u2028",
  );
  expect(printable("\ud800x\u{e0041}")).toBe("\\ud800x\\udb40\\udc41");
});

test("ordinary text of any language stays as it is", () => {
  for (const text of ["größe", "队列", "👩‍👩‍👧", "שלום", "a\\n"])
    expect(printable(text)).toBe(text);
});

test("of a text with several lines only the line feeds stay", () => {
  expect(printableLines("a\r\nb\u001b\n\tc")).toBe("a\nb\\u001b\n\\tc");
});

test("escaped JSON is still the same JSON", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const json = printableJson({ [text]: text });
      expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify({ [text]: text })));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: none may be left
      expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
    }),
  );
  expect(printableJson(undefined)).toBe("null");
});
