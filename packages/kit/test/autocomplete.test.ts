import { randomUUID } from "node:crypto";
import { InvalidArgumentError, InvalidNameError, InvalidOptionError } from "@ropeway/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { GroupMembers, RecentContacts } from "../src/autocomplete/index.ts";
import { groupKeys } from "../src/autocomplete/keys.ts";
import { resolveMembersOptions } from "../src/autocomplete/options.ts";
import { MembersStore } from "../src/autocomplete/store.ts";
import { seed } from "./seed.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other } = await twoConnections("auto");
const py = (name: string, ...args: readonly unknown[]) => seed(server.port, name, ...args).result;

describe("recent contacts", () => {
  test("newest first, once each, at most max, by prefix without case", async () => {
    const contacts = new RecentContacts(redis, "user");
    for (let i = 0; i < 10; i++) await contacts.add(`Contact-${Math.floor(i / 3)}-${i}`);
    expect(await contacts.search("")).toHaveLength(10);
    await contacts.add("Contact-1-4");
    expect((await contacts.search("c"))[0]).toBe("Contact-1-4");
    expect(await contacts.remove("Contact-2-6")).toBe(true);
    expect(await contacts.remove("Contact-2-6")).toBe(false);
    expect(await contacts.search("contact-2-")).toEqual(["Contact-2-8", "Contact-2-7"]);
    expect(await contacts.search("c", { limit: 2 })).toHaveLength(2);
    const few = new RecentContacts(redis, "few", { max: 3 });
    for (const name of ["a", "b", "c", "d"]) await few.add(name);
    expect(await few.search("")).toEqual(["d", "c", "b"]);
  });

  test("documented programs and ours share the list", async () => {
    await py("add_update_contact", "shared", "Anna");
    await new RecentContacts(redis, "shared").add("Andy");
    await py("add_update_contact", "shared", "Anna");
    expect(await new RecentContacts(redis, "shared").search("an")).toEqual(["Anna", "Andy"]);
    expect(await py("fetch_autocomplete_list", "shared", "AN")).toEqual(["Anna", "Andy"]);
  });
});

describe("group members", () => {
  test("documented programs and ours share the set, and no marker is left or returned", async () => {
    for (const name of ["jeff", "jenny", "jack", "jennifer"]) await py("join_guild", "g", name);
    const members = new GroupMembers(redis, "g");
    expect(await members.search("je")).toEqual(["jeff", "jennifer", "jenny"]);
    expect(await py("autocomplete_on_prefix", "g", "je")).toEqual(["jeff", "jennifer", "jenny"]);
    await server.command(
      "ZADD",
      "members:g",
      "0",
      "jd{1f0e3dad-9990-4b5c-8c6e-8c8a3f0e1234",
      "0",
      "je{1f0e3dad-9990-4b5c-8c6e-8c8a3f0e1234",
    );
    expect(await members.search("j")).toEqual(["jack", "jeff", "jennifer", "jenny"]);
    expect(await members.remove("jeff")).toBe(true);
    expect(await members.search("je")).toEqual(["jennifer", "jenny"]);
  }, 60_000); // every call of theirs starts a process

  test("any name and any prefix equal a filter in memory", async () => {
    let group = 0;
    const name = fc.string({
      unit: fc.constantFrom("a", "A", "ä", "{", "`", "}", "z", "日", "😀", "\u0301", " ", "%"),
      minLength: 1,
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(name, { maxLength: 20 }),
        fc.string({ unit: fc.constantFrom("a", "A", "ä", "{", "日", "😀"), maxLength: 2 }),
        async (names, start) => {
          group += 1;
          const members = new GroupMembers(redis, `p${group}`);
          for (const one of names) expect(await members.add(one)).toBe(true);
          const expected = names
            .filter((one) => one.startsWith(start))
            .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
          expect(await members.search(start, { limit: 100 })).toEqual(expected);
          for (const one of names) expect(await members.remove(one)).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
    expect(await server.command("KEYS", "*{members:p*")).toEqual([]);
    expect(await server.command("KEYS", "members:p*")).toEqual([]);
  });

  test("case and accents fold, and names keep their spelling", async () => {
    const members = new GroupMembers(redis, "fold", { fold: "accents" });
    for (const one of ["Jörg", "JOHN", "jo", "Élise", "elise"]) await members.add(one);
    expect(await members.search("jo")).toEqual(["jo", "JOHN", "Jörg"]);
    expect([...(await members.search("ÉL"))].sort()).toEqual(["elise", "Élise"].sort());
    await server.command("ZADD", "members:fold", "0", "Joanna");
    expect(await members.reindex()).toBe(6);
    expect(await members.search("joa")).toEqual(["Joanna"]);
    for (const one of ["Jörg", "JOHN", "jo", "Élise", "elise", "Joanna"]) await members.remove(one);
    expect(await server.command("KEYS", "*fold*")).toEqual([]);
  });

  test("a sigma is a sigma at the end of a word, of a prefix and within a name", async () => {
    const names = ["ΚΩΣΤΑΣ", "Κως", "κωσταλα"];
    for (const fold of ["case", "accents"] as const) {
      const plain = new GroupMembers(redis, `${fold}-plain`, { fold });
      const ranked = new GroupMembers(redis, `${fold}-ranked`, { fold, ranked: true });
      const contacts = new RecentContacts(redis, `${fold}-user`, { fold });
      for (const parts of [plain, ranked, contacts]) {
        for (const name of names) await parts.add(name);
        for (const start of ["ΚΩΣ", "κως", "κωσ"])
          expect([...(await parts.search(start))].sort()).toEqual([...names].sort());
        for (const name of names) expect(await parts.remove(name)).toBe(true);
      }
    }
  });

  test("ranked: the most used first, for short and long prefixes, and removed from every list", async () => {
    const members = new GroupMembers(redis, "rank", { ranked: true, fold: "case" });
    for (const [name, uses] of [
      ["Javascript", 3],
      ["Java", 5],
      ["Javelin", 1],
      ["Kotlin", 9],
    ] as const) {
      for (let i = 0; i < uses; i++) await members.use(name);
    }
    expect(await members.search("ja")).toEqual(["Java", "Javascript", "Javelin"]);
    expect(await members.search("")).toEqual(["Kotlin", "Java", "Javascript", "Javelin"]);
    expect(await members.search("JAVASC")).toEqual(["Javascript"]);
    await members.use("Javelin", 100);
    expect(await members.search("jav", { limit: 1 })).toEqual(["Javelin"]);
    await Promise.all(
      ["Javascript", "Java", "Javelin", "Kotlin"].map((one) => members.remove(one)),
    );
    expect(await server.command("KEYS", "*rank*")).toEqual([]);
  });

  test("an old use counts less than a new one", async () => {
    const members = new GroupMembers(redis, "decay", { ranked: true, halfLifeMs: 1_000 });
    for (let i = 0; i < 8; i++) await members.use("old");
    await new Promise((resolve) => setTimeout(resolve, 50));
    await members.use("new", 8);
    expect(await members.search("", { limit: 1 })).toEqual(["new"]);
  });

  test("a search looks at a bounded number of members", async () => {
    for (let i = 0; i < 50; i++) {
      const names = Array.from({ length: 1_000 }, (_, j) => [
        "0",
        `m${String(i * 1_000 + j).padStart(7, "0")}`,
      ]);
      await server.command("ZADD", "members:big", ...names.flat());
    }
    await server.command("CONFIG", "RESETSTAT");
    expect(await new GroupMembers(redis, "big").search("m00")).toHaveLength(10);
    expect(await new GroupMembers(redis, "big", { ranked: true }).search("m00000")).toHaveLength(
      10,
    );
    const stats = String(await server.command("INFO", "commandstats"));
    expect(/cmdstat_zrangebylex:calls=(\d+)/.exec(stats)?.[1]).toBe("2");
  });

  test("wrong values are refused", async () => {
    const members = new GroupMembers(redis, "bad");
    await expect(members.add("")).rejects.toThrow(InvalidNameError);
    await expect(members.add("a\0b")).rejects.toThrow(InvalidNameError);
    await expect(members.use("a", -1)).rejects.toThrow(InvalidArgumentError);
    await expect(members.search("\ud800")).rejects.toThrow(InvalidArgumentError);
    await expect(members.search("a", { limit: 0 })).rejects.toThrow(InvalidOptionError);
    expect(() => new GroupMembers(redis, "x", { halfLifeMs: 0 })).toThrow(InvalidOptionError);
  });
});

test("a ranked search is one command, whether its list is full, short or absent", async () => {
  const members = new GroupMembers(redis, "one", { ranked: true, topPrefixes: 2 });
  for (const name of ["carl", "carla", "cara"]) await members.use(name);
  await members.search("c"); // loads the script
  for (const [start, limit] of [
    ["c", 3],
    ["c", 4],
    ["carl", 2],
  ] as const) {
    await server.command("CONFIG", "RESETSTAT");
    expect(await members.search(start, { limit })).toHaveLength(Math.min(3, limit));
    const stats = String(await server.command("INFO", "commandstats"));
    expect(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1]).toBe("1");
  }
});

test("reindex adds neither markers of a documented search nor members that were removed meanwhile", async () => {
  const members = new GroupMembers(redis, "reindexed", { ranked: true });
  const marker = "je{0f8fad5b-d9cb-469f-a165-70867728950e";
  await server.command("ZADD", "members:reindexed", "0", "jeff", "0", marker);
  expect(await members.reindex()).toBe(1);
  expect(await members.search("")).toEqual(["jeff"]);
  await server.command("ZREM", "members:reindexed", "jeff");
  const store = new MembersStore(redis, "reindexed", resolveMembersOptions({ ranked: true }));
  expect(await store.change("index", "jeff")).toBe(false);
  expect(await server.command("ZRANGE", "members:reindexed", "0", "-1")).toEqual([marker]);
});

test("reindex removes what documented programs removed from every index", async () => {
  const members = new GroupMembers(redis, "pruned", { ranked: true, fold: "case" });
  for (const one of ["Jeff", "Jenny"]) await members.use(one);
  await server.command("ZREM", "members:pruned", "Jeff");
  expect(await members.reindex()).toBe(1);
  for (const start of ["", "j", "jeff", "je"])
    expect(await members.search(start)).toEqual(start === "jeff" ? [] : ["Jenny"]);
  await server.command("ZREM", "members:pruned", "Jenny");
  expect(await members.reindex()).toBe(0);
  expect(await server.command("KEYS", "*pruned*")).toEqual([]);
});

test("reindex removes what documented programs removed from a ranked group without folding", async () => {
  const members = new GroupMembers(redis, "unfolded", { ranked: true });
  for (const one of ["jeff", "jenny"]) await members.use(one);
  await server.command("ZREM", "members:unfolded", "jeff");
  expect(await members.reindex()).toBe(1);
  for (const start of ["", "j"]) expect(await members.search(start)).toEqual(["jenny"]);
});

test("adding a member again and reindexing count no use", async () => {
  const members = new GroupMembers(redis, "counted", { ranked: true });
  const { scores } = groupKeys("", "counted");
  await members.use("jeff");
  const score = await server.command("ZSCORE", scores, "jeff");
  expect(await members.add("jeff")).toBe(false);
  await members.reindex();
  expect(await server.command("ZSCORE", scores, "jeff")).toBe(score);
});

test("edits at the same time leave every index as the last of them", async () => {
  const names = Array.from({ length: 20 }, (_, i) => `${"abc"[i % 3]}${i}`);
  const handles = [redis, other].map(
    (one) => new GroupMembers(one, "edited", { ranked: true, fold: "case", topLength: 10 }),
  );
  const edits = Array.from({ length: 400 }, (_, i) => {
    const members = handles[i % 2] as GroupMembers;
    const name = names[(i * 7) % 20] as string;
    return i % 3 === 0 ? members.remove(name) : i % 3 === 1 ? members.use(name) : members.add(name);
  });
  await Promise.all([...edits, ...names.map((name) => handles[0]?.search(name.slice(0, 1)))]);
  const { members, folded, scores, top } = groupKeys("", "edited");
  const all = async (key: string) =>
    ((await server.command("ZRANGE", key, "0", "-1")) as string[]).sort();
  const left = await all(members);
  expect(await all(scores)).toEqual(left);
  expect((await all(folded)).map((entry) => entry.split("\0")[1])).toEqual(left);
  for (const start of "abc") {
    for (const name of await all(top(start))) expect(left).toContain(name);
  }
  await Promise.all(names.map((name) => handles[1]?.remove(name)));
  expect(await server.command("KEYS", "members*edited*")).toEqual([]);
});

test("a top list keeps the most used members only", async () => {
  const members = new GroupMembers(redis, "capped", { ranked: true, topLength: 10 });
  for (let i = 0; i < 15; i++) await members.use(`bert${i}`, i + 1);
  const { top } = groupKeys("", "capped");
  expect(await server.command("ZREVRANGE", top("b"), "0", "0")).toEqual(["bert14"]);
  expect(await server.command("ZCARD", top("b"))).toBe(10);
});

test("a prefix whose most used members were removed still finds the others", async () => {
  const members = new GroupMembers(redis, "depleted", { ranked: true, topLength: 10 });
  const names = Array.from({ length: 30 }, (_, i) => `anna${String(i).padStart(2, "0")}`);
  for (const [i, name] of names.entries()) await members.use(name, 30 - i);
  for (const name of names.slice(0, 15)) await members.remove(name);
  expect(await members.search("an", { limit: 5 })).toEqual(names.slice(15, 20));
});

test("markers of documented searches take no place among the results of a ranked search", async () => {
  const { members } = groupKeys("", "marked");
  const names = Array.from({ length: 10 }, (_, i) => `abca${i}`);
  const markers = Array.from({ length: 3 }, () => `abc\`{${randomUUID()}`);
  for (const name of [...names, ...markers]) await server.command("ZADD", members, "0", name);
  const ranked = new GroupMembers(redis, "marked", { ranked: true });
  expect(await ranked.search("abc", { limit: 10 })).toEqual(names);
});

test.each([{ ranked: false }, { ranked: true }])(
  "members are found behind many markers of searches that died (ranked: $ranked)",
  async ({ ranked }) => {
    const group = `dead-searches-${ranked}`;
    const markers = Array.from({ length: 100 }, () => ["0", `abb{${randomUUID()}`]).flat();
    await server.command("ZADD", `members:${group}`, ...markers, "0", "abcx", "0", "abcy");
    const members = new GroupMembers(redis, group, { ranked });
    expect(await members.search("ab")).toEqual(["abcx", "abcy"]);
    expect(await members.search("ab", { limit: 1 })).toEqual(["abcx"]);
  },
);

test("a group whose name goes on like a member of another one has top lists of its own", async () => {
  for (const prefix of ["", "{shop}"]) {
    const options = { prefix, ranked: true };
    const all = new GroupMembers(redis, "users", options);
    const some = new GroupMembers(redis, "users:eu", options);
    for (let i = 0; i < 12; i++) await all.use(`eu:bob${i}`);
    await some.use("bob");
    expect(await some.search("b")).toEqual(["bob"]);
    expect(await all.search("eu:b", { limit: 100 })).toHaveLength(12);
  }
});
