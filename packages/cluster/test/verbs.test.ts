/** Every verb of an operator against every state of a task, as a table. */
import { silentLogger } from "@ropeway/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { Registration } from "../src/nodes/registration.ts";
import { putRecord, rangeAll } from "../src/record.ts";
import { SecretBox } from "../src/secrets.ts";
import type { Store } from "../src/store/store.ts";
import { taskOperations } from "../src/tasks/indexes.ts";
import type { TaskStatus } from "../src/tasks/status.ts";
import { type Task, taskOf } from "../src/tasks/task.ts";
import { redisStage } from "./stage.fixture.ts";

const NODE = "node_t";

/** A state: what the task does, what its operator wants, and whether a node holds its owner key. */
interface State {
  readonly status: TaskStatus;
  readonly desired: "run" | "stop";
  readonly owned?: boolean;
}

const STATES: Record<string, State> = {
  new: { status: "CREATED", desired: "stop" },
  waiting: { status: "CREATED", desired: "run" },
  placed: { status: "CREATING", desired: "run" },
  starting: { status: "STARTING", desired: "run", owned: true },
  copying: { status: "RDBRUNNING", desired: "run", owned: true },
  following: { status: "COMMANDRUNNING", desired: "run", owned: true },
  failover: { status: "FAILOVER", desired: "run", owned: true },
  stopping: { status: "COMMANDRUNNING", desired: "stop", owned: true },
  orphaned: { status: "COMMANDRUNNING", desired: "run" },
  stopped: { status: "STOP", desired: "stop" },
  finished: { status: "FINISH", desired: "stop" },
  broken: { status: "BROKEN", desired: "stop" },
};

type Verb = (on: Cluster, taskId: string) => Promise<unknown>;
let names = 0;
const VERBS: Record<string, Verb> = {
  start: (on, id) => on.tasks.start(id),
  restart: (on, id) => on.tasks.start(id, { afresh: true }),
  stop: (on, id) => on.tasks.stop(id),
  edit: (on, id) => on.tasks.edit(id, { name: `edited ${++names}` }),
  protect: (on, id) => on.tasks.edit(id, { immortal: true }),
  move: (on, id) => on.tasks.move(id, NODE),
  remove: (on, id) => on.tasks.remove(id),
};

/** The status and wish afterwards; "409": refused, and nothing is changed; "gone": removed. */
// biome-ignore format: a table
const EXPECTED: Record<string, readonly string[]> = {
  //          start           restart         stop                   edit                  protect                 move                  remove
  new:       ["CREATING run", "CREATING run", "STOP stop",           "CREATED stop",       "CREATED stop",         "CREATED stop",       "gone"],
  waiting:   ["409",          "409",          "STOP stop",           "409",                "CREATED run",          "CREATING run",       "409"],
  placed:    ["409",          "409",          "STOP stop",           "409",                "CREATING run",         "CREATING run",       "409"],
  starting:  ["409",          "409",          "STARTING stop",       "409",                "STARTING run",         "STARTING run",       "409"],
  copying:   ["409",          "409",          "RDBRUNNING stop",     "409",                "RDBRUNNING run",       "RDBRUNNING run",     "409"],
  following: ["409",          "409",          "COMMANDRUNNING stop", "409",                "COMMANDRUNNING run",   "COMMANDRUNNING run", "409"],
  failover:  ["409",          "409",          "FAILOVER stop",       "409",                "FAILOVER run",         "FAILOVER run",       "409"],
  stopping:  ["409",          "409",          "COMMANDRUNNING stop", "409",                "COMMANDRUNNING stop",  "COMMANDRUNNING stop", "409"],
  orphaned:  ["409",          "409",          "STOP stop",           "409",                "COMMANDRUNNING run",   "COMMANDRUNNING run", "409"],
  stopped:   ["CREATING run", "CREATING run", "409",                 "STOP stop",          "STOP stop",            "STOP stop",          "gone"],
  finished:  ["CREATING run", "CREATING run", "409",                 "FINISH stop",        "FINISH stop",          "FINISH stop",        "gone"],
  broken:    ["CREATING run", "CREATING run", "409",                 "BROKEN stop",        "BROKEN stop",          "BROKEN stop",        "gone"],
};

describe("every verb against every state", () => {
  let stage: Awaited<ReturnType<typeof redisStage>>;
  let store: Store;
  let cluster: Cluster;
  let node: Registration;
  beforeAll(async () => {
    stage = await redisStage();
    store = await stage.open();
    cluster = new Cluster(store, { secrets: new SecretBox("00".repeat(32)) });
    node = await Registration.open({
      store,
      ...{ type: "redissyncer", id: NODE, address: "", version: "", types: ["scripted"] },
      ...{ leaseMs: 600_000, reportMs: 60_000, maxTasks: 1_000 },
      ...{ logger: silentLogger, tasks: () => 0 },
    } as const);
  });
  afterAll(async () => {
    await node?.close();
    await stage?.close();
  });

  /** A task in a state, without a node that brought it there. */
  const taskIn = async ({ status, desired, owned = false }: State): Promise<string> => {
    const wish = { name: `task ${++names}`, type: "scripted", config: {} };
    const { task } = await cluster.tasks.create(wish);
    const nodeId = status === "CREATED" ? "" : NODE;
    const owner = keys.owner(task.taskId);
    const operations = taskOperations(task, { ...task, status, desired, nodeId, epoch: 1 });
    const own = owned ? [putRecord(owner, { nodeId }, node.session.lease)] : [];
    await store.txn({ do: [...operations, ...own] });
    return task.taskId;
  };

  /** The paths of a task's indexes, as they are and as they should be. */
  const indexes = async (task: Task) => {
    const { entries } = await rangeAll(store, "/tasks/");
    const lists = /^\/tasks\/(event|offset|owner)\//;
    const found = entries
      .filter(({ key, value }) => key.includes(task.taskId) || value.includes(task.taskId))
      .map(({ key }) => key)
      .filter((key) => !lists.test(key));
    const expected = taskOperations(undefined, task).map(({ key }) => key);
    return { found: found.sort(), expected: expected.sort() };
  };

  it.each(
    Object.keys(STATES).flatMap((state) =>
      Object.keys(VERBS).map((verb) => [verb, state] as const),
    ),
  )("%s of a task that is %s", async (verb, state) => {
    const expected = EXPECTED[state]?.[Object.keys(VERBS).indexOf(verb)];
    const id = await taskIn(STATES[state] as State);
    const before = await store.get(keys.task(id));
    const outcome = await (VERBS[verb] as Verb)(cluster, id).then(
      () => "done",
      (error: { code: string; message: string }) => error,
    );
    const after = await store.get(keys.task(id));
    const task = taskOf(after);
    if (expected === "409") {
      expect(outcome).toMatchObject({
        code: "ILLEGAL_TRANSITION",
        message: expect.stringMatching(new RegExp(`${STATES[state]?.status}.* [A-Za-z]+`)),
      });
      expect(after).toEqual(before);
    } else {
      expect(outcome).toBe("done");
      expect(task === undefined ? "gone" : `${task.status} ${task.desired}`).toBe(expected);
    }
    if (task === undefined) {
      const { entries } = await rangeAll(store, "/tasks/");
      expect(entries.filter(({ key }) => key.includes(id))).toEqual([]);
    } else {
      const { found, expected: own } = await indexes(task);
      expect(found).toEqual(own);
    }
    if (outcome === "done" && (verb === "start" || verb === "restart")) {
      expect(task?.afresh).toBe(verb === "restart"); // it ran before: a plain start resumes
    }
  });

  it("does not remove a task that still has an owner, whatever its status says", async () => {
    const id = await taskIn({ status: "STOP", desired: "stop", owned: true });
    const before = await store.get(keys.task(id));
    await expect(cluster.tasks.remove(id)).rejects.toMatchObject({ code: "CONFLICT" });
    expect(await store.get(keys.task(id))).toEqual(before);
  });
});
