/** The reference pages say what the source says. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { groupKeys, recentKey } from "../src/autocomplete/keys.ts";
import { resolveContactsOptions, resolveMembersOptions } from "../src/autocomplete/options.ts";
import * as chatErrors from "../src/chat/errors.ts";
import { roomCounterKey, roomKeys, seenKey } from "../src/chat/keys.ts";
import { resolveChatOptions } from "../src/chat/options.ts";
import * as errors from "../src/errors.ts";
import * as filesErrors from "../src/files/errors.ts";
import { contentKey, doneKey, namedKey, transferKeys } from "../src/files/keys.ts";
import { resolveFilesOptions } from "../src/files/options.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { resolveLockOptions } from "../src/lock/options.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { resolveMailboxOptions } from "../src/mailbox/options.ts";
import { INSTRUMENTS } from "../src/metrics.ts";
import { semaphoreKeys } from "../src/semaphore/keys.ts";
import { resolveSemaphoreOptions } from "../src/semaphore/options.ts";

const read = (page: string) =>
  readFileSync(new URL(`../../../docs/${page}`, import.meta.url), "utf8");

test("the reference lists every error with its code", () => {
  const section = read("reference/errors.md")
    .split(/^## /m)
    .find((part) => part.startsWith("kit\n"));
  const documented = [...(section ?? "").matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(
    (row) => row[2],
  );
  const thrown = Object.keys({ ...errors, ...chatErrors, ...filesErrors });
  expect(documented.sort()).toEqual(thrown.sort());
});

test("the reference lists every metric with its meaning", () => {
  const page = read("reference/metrics.md");
  for (const [name, meaning] of Object.values(INSTRUMENTS)) {
    expect(page).toMatch(new RegExp(`^\\| \`${name}\` \\|.*\\| ${meaning} \\|$`, "m"));
  }
});

test("the wire page lists every key", () => {
  const page = read("reference/wire/kit.md");
  // With a tag in the name, a key of ours has the same name behind another word.
  const untagged = (keys: readonly string[]) => keys.map((key) => key.replaceAll("{t}", ""));
  const spelled = [
    ...untagged(lockKeys("", "{t}{name}").all),
    ...semaphoreKeys("", "{name}").all,
    ...untagged(Object.values(mailboxKeys("", "{t}{name}"))),
    ...Object.values(roomKeys("", "{room}")),
    roomCounterKey(""),
    seenKey("", "{user}"),
    recentKey("", "{user}"),
    ...untagged([
      groupKeys("", "{t}{group}").members,
      groupKeys("", "{t}{group}").folded,
      groupKeys("", "{t}{group}").scores,
      groupKeys("", "{t}{group}").top("{start}").replace("top7", "top{n}"),
    ]),
    ...transferKeys("", "{channel}", "{id}").all,
    contentKey("", "{channel}", "{file}"),
    doneKey("", "{channel}", "{file}"),
    namedKey("", "{channel}", "{file}"),
  ];
  for (const key of new Set(spelled)) expect(page).toContain(`| \`${key}\` |`);
});

test("the guide lists every option with its default", () => {
  const guide = read("guides/kit.md");
  const { owner: _host, maxHoldMs: _none, ...lock } = resolveLockOptions();
  const { maxHoldMs: _same, ...semaphore } = resolveSemaphoreOptions();
  const all = [
    lock,
    semaphore,
    resolveMailboxOptions(),
    resolveChatOptions(),
    resolveFilesOptions(),
    resolveMembersOptions(),
    resolveContactsOptions(),
  ];
  for (const options of all) {
    for (const [name, value] of Object.entries(options)) {
      expect(guide).toContain(`| \`${name}\` | \`${JSON.stringify(value)}\` |`);
    }
  }
});
