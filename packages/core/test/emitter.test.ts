import { expect, test } from "vitest";
import { Emitter } from "../src/emitter.ts";
import { silentLogger } from "../src/logger.ts";

interface Events {
  done: [count: number];
  error: [error: unknown];
}

class Source extends Emitter<Events> {
  tell(count: number): void {
    this.emit("done", count);
  }

  fail(error: unknown): void {
    this.report(error);
  }
}

test("a listener that throws or rejects is reported as an error, and the others still run", async () => {
  const source = new Source(silentLogger);
  const errors: unknown[] = [];
  const counts: number[] = [];
  source.on("error", (error) => errors.push(error));
  source.on("done", () => {
    throw new Error("thrown");
  });
  source.on("done", () => Promise.reject(new Error("rejected")));
  source.on("done", (count) => counts.push(count));
  source.tell(3);
  await Promise.resolve();
  expect(counts).toEqual([3]);
  expect(errors).toEqual([new Error("thrown"), new Error("rejected")]);
});

test("an error that nobody listens to, or whose listener throws, is logged and never thrown", () => {
  const lines: string[] = [];
  const source = new Source({ ...silentLogger, warn: (_, message) => lines.push(message) });
  source.fail(new Error("first"));
  source.on("error", () => {
    throw new Error("second");
  });
  source.fail(new Error("third"));
  expect(lines).toEqual(["an error event has no listener", "an event listener threw"]);
});

test("once hears one event, and off ends on", () => {
  const source = new Source(silentLogger);
  const heard: string[] = [];
  const listener = (count: number) => heard.push(`on ${count}`);
  source.once("done", (count) => heard.push(`once ${count}`)).on("done", listener);
  source.tell(1);
  source.off("done", listener);
  source.tell(2);
  expect(heard).toEqual(["once 1", "on 1"]);
  expect(source.listenerCount("done")).toBe(0);
});
