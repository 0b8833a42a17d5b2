/** Lists for callers that see some groups only. */
import { describe, expect, it } from "vitest";
import { Cluster } from "../src/cluster.ts";
import { keys } from "../src/keys.ts";
import { clusterForFile } from "./cluster-for-file.fixture.ts";
import { gatedStore } from "./gated-store.fixture.ts";

const { stage, store, cluster } = await clusterForFile();

describe("a list of tasks", () => {
  let count = 0;
  const create = async (group: string) => {
    const wish = { name: `t${++count}`, type: "scripted", config: {}, group };
    return (await cluster.tasks.create(wish)).task.taskId;
  };

  it("has the tasks of some groups in order, with cursors that name no task of another group", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 30; n++) {
      ids.push(await create(["list_a", "list_b", "list_other"][n % 3] as string));
    }
    const others = ids.filter((_, n) => n % 3 === 2);
    for (const limit of [1, 3, 7, 500]) {
      const seen: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const groups = ["list_b", "not/a group", "list_a", "list_a"];
        const page = await cluster.tasks.list({ groups, cursor, limit });
        seen.push(...page.items.map(({ taskId }) => taskId));
        cursor = page.cursor;
        if (cursor === undefined) break;
        expect(others).not.toContain(Buffer.from(cursor, "base64url").toString());
      }
      expect(seen).toEqual(ids.filter((id) => !others.includes(id)).sort());
    }
    const elsewhere = { groups: ["list_a"], group: "list_other" };
    expect(await cluster.tasks.list(elsewhere)).toEqual({ items: [] });
    for (const id of ids) await cluster.tasks.remove(id);
  });

  it("has a cursor when a long page ends within the last tasks that were read", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 140; n++) ids.push(await create("list_long"));
    const first = await cluster.tasks.list({ group: "list_long", limit: 130 });
    expect(first.items).toHaveLength(130);
    const { cursor } = first;
    const rest = await cluster.tasks.list({ group: "list_long", limit: 130, cursor });
    const seen = [...first.items, ...rest.items].map(({ taskId }) => taskId);
    expect(seen).toEqual([...ids].sort());
    expect(rest.cursor).toBeUndefined();
    await Promise.all(ids.map((id) => cluster.tasks.remove(id)));
  });

  it("of some groups looks at no task of another group", async () => {
    const read: string[] = [];
    const watched = gatedStore(await stage.open(), async ({ do: operations }) => {
      read.push(...operations.map(({ key }) => key));
    });
    const other = await create("list_other");
    await new Cluster(watched).tasks.list({ groups: ["list_a"], status: "CREATED" });
    expect(read).not.toContain(keys.task(other));
    await cluster.tasks.remove(other);
  });
});

it("goes past paths of other programs below its own, once", async () => {
  const made = await Promise.all(
    ["past-a", "past-b", "past-c"].map((name) =>
      cluster.tasks.create({ name, type: "scripted", config: {}, group: "past" }),
    ),
  );
  const ids = made.map(({ task }) => task.taskId).sort();
  for (const id of ids) {
    await store.put(`${keys.tasksOfGroup("past")}${id}/0`, "{}");
    await store.put(keys.bigKey(ids[0] ?? "", `${id}/0`), "{}");
  }
  for (const filter of [{ group: "past" }, { groups: ["past", "none"] }]) {
    const found: string[] = [];
    let cursor: string | undefined;
    for (let pages = 0; pages === 0 || (cursor !== undefined && pages < 10); pages++) {
      const page = await cluster.tasks.list({ ...filter, limit: 1, cursor });
      found.push(...page.items.map(({ taskId }) => taskId));
      cursor = page.cursor;
    }
    expect(cursor).toBeUndefined();
    expect(found).toEqual(ids);
  }
  const pages: number[] = [];
  let cursor: string | undefined;
  do {
    const page = await cluster.tasks.records.page("bigKeys", ids[0] ?? "", { limit: 1, cursor });
    pages.push(page.items.length);
    cursor = page.cursor;
  } while (cursor !== undefined && pages.length < 10);
  expect(pages).toHaveLength(3);
});
