import { expect, test } from "vitest";
import { ClosedError } from "../src/errors.ts";
import { silentLogger } from "../src/logger.ts";
import { BackgroundRole, type Opening } from "../src/role.ts";
import { deferred } from "../src/wait.ts";

class Recorder extends BackgroundRole {
  readonly steps: string[] = [];
  plan: (opening: Opening) => Promise<void> = async () => {};

  constructor() {
    super("the recorder", silentLogger);
  }

  protected override async open(opening: Opening): Promise<void> {
    this.steps.push(this.held ? "open held" : "open");
    opening.defer(() => this.steps.push("undo first"));
    opening.defer(() => this.steps.push("undo second"));
    await this.plan(opening);
  }

  protected override hold(): void {
    this.steps.push("hold");
  }

  protected override release(): void {
    this.steps.push("release");
  }
}

test("start is idempotent, and close undoes in reverse order once", async () => {
  const role = new Recorder();
  expect(role.state).toBe("idle");
  const [first, second] = await Promise.all([role.start(), role.start()]);
  expect(first).toBe(second);
  expect(role.state).toBe("running");
  await Promise.all([role.close(), role.close()]);
  expect(role.state).toBe("closed");
  expect(role.steps).toEqual(["open", "undo second", "undo first"]);
  await expect(role.start()).rejects.toBeInstanceOf(ClosedError);
});

test("a failed start undoes what it had opened, and may be tried again", async () => {
  const role = new Recorder();
  role.plan = () => Promise.reject(new Error("no server"));
  await expect(role.start()).rejects.toThrow("no server");
  expect(role.state).toBe("idle");
  expect(role.steps).toEqual(["open", "undo second", "undo first"]);
  role.plan = async () => {};
  await role.start();
  expect(role.state).toBe("running");
  await role.close();
});

test("close during start aborts the opening and leaves nothing open", async () => {
  const role = new Recorder();
  const opened = deferred<void>();
  role.plan = ({ signal }) => {
    signal.addEventListener("abort", () => opened.resolve());
    return opened.promise; // resolves although it was aborted: start() must reject all the same
  };
  const starting = role.start();
  const closing = role.close();
  await expect(starting).rejects.toBeInstanceOf(ClosedError);
  await closing;
  expect(role.state).toBe("closed");
  expect(role.steps).toEqual(["open", "undo second", "undo first"]);
});

test("pause and resume act once each, also before and during start", async () => {
  const role = new Recorder();
  await role.pause();
  const opened = deferred<void>();
  role.plan = () => opened.promise;
  const starting = role.start();
  await role.resume();
  opened.resolve();
  await starting;
  expect(role.state).toBe("running");
  await role.pause();
  await role.pause();
  expect(role.state).toBe("paused");
  await role.resume();
  expect(role.steps).toEqual(["open held", "release", "hold", "release"]);
  await role.close();
});

test("an undo that throws is reported and does not keep the others from running", async () => {
  const role = new Recorder();
  const errors: unknown[] = [];
  role.on("error", (error) => errors.push(error));
  role.plan = async ({ defer }) =>
    defer(() => {
      throw new Error("stuck");
    });
  await role.start();
  await role.close();
  expect(errors).toEqual([new Error("stuck")]);
  expect(role.steps).toEqual(["open", "undo second", "undo first"]);
});
