import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { Context } from "../../src/context.ts";
import { paint, stateCell } from "../../src/terminal/colour.ts";
import { readInput } from "../../src/terminal/input.ts";
import { Output, type OutputOptions } from "../../src/terminal/output.ts";

/** An output and what was printed to it. */
function open(options: Partial<OutputOptions> & { terminal?: boolean; columns?: number } = {}) {
  const { terminal = false, columns = 80, ...rest } = options;
  const printed = { stdout: "", stderr: "" };
  const sink = (name: keyof typeof printed) => ({
    isTTY: terminal,
    columns,
    write: (text: string) => {
      printed[name] += text;
    },
  });
  const output = new Output({
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    json: false,
    colour: true,
    ...rest,
  });
  return { output, printed };
}

const ESC = "\u001b";
const EVIL = `${ESC}[2Jx\nropeway ready http://evil/`;

test("nothing that is printed reaches the terminal unescaped", () => {
  for (const json of [false, true]) {
    const { output, printed } = open({ json, colour: false, terminal: true });
    output.line(EVIL, paint("red", EVIL));
    output.note(EVIL);
    output.warn(EVIL);
    output.error({ code: "X", message: EVIL });
    output.outcome("added", { name: EVIL }, EVIL);
    output.list({ items: [EVIL] }, { columns: { NAME: (name) => name }, empty: "none" });
    output.details({ name: EVIL }, { name: stateCell(`${ESC}x`) });
    output.block(`one\n${ESC}two`);
    expect(printed.stdout + printed.stderr).not.toContain(ESC);
    expect(printed.stdout).not.toMatch(/^ropeway ready/m);
  }
});

describe("a list", () => {
  const jobs = {
    items: [
      { id: "a", state: "failed" },
      { id: "bb", state: "active" },
    ],
  };
  const view = {
    columns: {
      STATE: ({ state }: { state: string }) => stateCell(state),
      ID: ({ id }: { id: string }) => id,
    },
    empty: "no jobs: add one with `ropeway jobs add`",
  };

  test("is a table with coloured states on a terminal", () => {
    const { output, printed } = open({ terminal: true });
    output.list(jobs, view);
    expect(printed.stdout).toBe(
      `${ESC}[2mSTATE${ESC}[22m   ${ESC}[2mID${ESC}[22m\n${ESC}[31mfailed${ESC}[39m  a\n${ESC}[36mactive${ESC}[39m  bb\n`,
    );
  });

  test("is a table of the usual width on a terminal that does not say its width", () => {
    const { output, printed } = open({ terminal: true, columns: 0, colour: false });
    output.list(jobs, view);
    expect(printed.stdout).toBe("STATE   ID\nfailed  a\nactive  bb\n");
  });

  test("is tab-separated rows in a pipe, with tabs inside a cell escaped", () => {
    const { output, printed } = open();
    output.list({ items: [{ id: "a\tb", state: "failed" }] }, view);
    expect(printed.stdout).toBe("failed\ta\\tb\n");
  });

  test("is a page with --json", () => {
    const { output, printed } = open({ json: true });
    output.list(jobs, view);
    expect(JSON.parse(printed.stdout)).toEqual({ ...jobs, cursor: null });
  });

  test("says what to do next when it is empty, and how to go on when it is not the last page", () => {
    const { output, printed } = open();
    output.list({ items: [] }, view);
    expect(printed).toEqual({ stdout: "", stderr: `${view.empty}\n` });
    output.list({ ...jobs, cursor: "7" }, view);
    expect(printed.stderr).toContain("more: repeat with --cursor 7\n");
  });
});

test("details are a name and a value per line; further lines of a value stand below it", () => {
  const { output, printed } = open();
  output.details({ id: 1 }, { id: 1, error: "no\nbox", none: undefined });
  expect(printed.stdout).toBe("id     1\nerror  no\n       box\n");
});

test("an outcome is a sentence for people and a word with facts for scripts", () => {
  const human = open();
  human.output.outcome("paused", { queue: "mail" }, "Queue mail paused.");
  expect(human.printed.stdout).toBe("Queue mail paused.\n");
  const script = open({ json: true });
  script.output.outcome("paused", { queue: "mail" }, "Queue mail paused.");
  expect(JSON.parse(script.printed.stdout)).toEqual({ outcome: "paused", queue: "mail" });
});

describe("reading standard input", () => {
  const contextOf = (stdin: Readable, isTTY: boolean, signal = new AbortController().signal) => {
    const { output, printed } = open();
    const context = {
      stdin: Object.assign(stdin, { isTTY }),
      output,
      signal,
    } as unknown as Context;
    return { context, printed };
  };

  test("says so on a terminal, and is silent in a pipe", async () => {
    const { context, printed } = contextOf(Readable.from(["a", "b"]), true);
    expect(String(await readInput(context, "the body"))).toBe("ab");
    expect(printed.stderr).toBe(
      "Reading the body from standard input; end it with Ctrl-D on a line of its own.\n",
    );
    const pipe = contextOf(Readable.from(["a"]), false);
    await readInput(pipe.context, "the body");
    expect(pipe.printed.stderr).toBe("");
  });

  test("ends with Ctrl-C", async () => {
    const stop = new AbortController();
    const { context } = contextOf(new Readable({ read() {} }), true, stop.signal);
    const reading = readInput(context, "the body");
    stop.abort("SIGINT");
    await expect(reading).rejects.toThrow();
  });
});
