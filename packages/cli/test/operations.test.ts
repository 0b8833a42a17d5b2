/**
 * Every operation of the libraries' handles has a verb on the command line. A new public method fails this
 * test until it has a verb here, or is listed as one that only makes sense inside a program.
 */
import { Cluster, openRedisStore, SecretBox } from "@ropeway/cluster";
import { Queue } from "@ropeway/jobs";
import { GroupMembers, RecentContacts } from "@ropeway/kit/autocomplete";
import { Chat, Room } from "@ropeway/kit/chat";
import { Files } from "@ropeway/kit/files";
import { LockInspector } from "@ropeway/kit/lock";
import { Mailbox } from "@ropeway/kit/mailbox";
import { Semaphore, SemaphoreInspector } from "@ropeway/kit/semaphore";
import {
  Attempts,
  DeadLetters,
  EndpointQueue,
  Endpoints,
  Inspector,
  Schedules,
} from "@ropeway/merge";
import { RpcClient } from "@ropeway/rpc";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, expect, test } from "vitest";
import { createProgram } from "../src/program.ts";

/** Operations that only make sense inside a program. */
const PROGRAM = "";

const { redis } = await redisForFile();
const store = openRedisStore(redis);
afterAll(() => store.close());
// The classes of its parts are not exported.
const cluster = new Cluster(store, { secrets: new SecretBox(undefined) });

/** The verbs by class and method. Several verbs may cover one method; one of them is named. */
const verbs = {
  Queue: {
    class: Queue,
    of: {
      ...{ exists: "jobs show", add: "jobs add", addBulk: "jobs add", addFlow: PROGRAM },
      ...{ run: "jobs add", result: "jobs result", get: "jobs show", job: PROGRAM },
      ...{ children: "jobs children", counts: "jobs show", rates: "jobs rates" },
      ...{ search: "jobs list", workers: "jobs workers", cancel: "jobs cancel" },
      ...{ remove: "jobs remove", promote: "jobs promote", retry: "jobs retry" },
      ...{ retryAll: "jobs retry", update: "jobs update", drain: "jobs drain" },
      ...{ removeDedupeKey: "jobs free-key", obliterate: "jobs obliterate" },
      ...{ pause: "jobs pause", resume: "jobs resume", setLimits: "jobs limits" },
      ...{ limits: "jobs limits", setSchedule: "jobs schedule" },
      ...{ removeSchedule: "jobs unschedule", schedules: "jobs schedules" },
      ...{ events: "jobs watch", close: PROGRAM },
    },
  },
  Inspector: {
    class: Inspector,
    of: {
      ...{ list: "merge list", peek: "merge peek", sendNow: "merge send-now" },
      ...{ remove: "merge delete", pause: "merge pause", resume: "merge resume" },
      ...{ now: PROGRAM, check: PROGRAM, stats: "merge stats" },
    },
  },
  DeadLetters: {
    class: DeadLetters,
    of: {
      ...{ list: "merge letters", get: "merge letter", items: "merge letter" },
      ...{ replay: "merge replay", replayAll: "merge replay" },
      ...{ discard: "merge discard", discardAll: "merge discard" },
      trim: "merge discard", // with --until
    },
  },
  Endpoints: {
    class: Endpoints,
    of: {
      ...{ list: "merge endpoints", get: "merge endpoint", enable: "merge endpoint" },
      ...{ disable: "merge endpoint", pause: "merge endpoint", limit: "merge endpoint" },
      ...{ rotateSecret: "merge endpoint", removeSecrets: "merge endpoint" },
    },
  },
  EndpointQueue: {
    class: EndpointQueue,
    of: {
      ...{ destination: PROGRAM, push: "merge push", peek: "merge peek" },
      ...{ sendNow: "merge send-now", remove: "merge delete" },
      ...{ pause: "merge pause", resume: "merge resume" },
    },
  },
  Attempts: {
    class: Attempts,
    of: { list: "merge attempts", totals: "merge stats", follow: "merge watch" },
  },
  Schedules: {
    class: Schedules,
    of: {
      ...{ set: "merge schedule", get: "merge show-schedule", list: "merge schedules" },
      ...{ remove: "merge unschedule", pause: "merge pause-schedule" },
      resume: "merge resume-schedule",
    },
  },
  RpcClient: {
    class: RpcClient,
    of: {
      ...{ use: PROGRAM, call: "rpc call", batch: PROGRAM, notify: "rpc notify" },
      ...{ submit: "rpc submit", stream: "rpc call", duplex: PROGRAM, service: PROGRAM },
      ...{ poll: "rpc poll", progress: "rpc poll", cancel: "rpc cancel", session: "rpc call" },
      ...{ discover: "rpc list", workers: "rpc workers", stats: "rpc stats" },
      ...{ open: PROGRAM, hold: PROGRAM, release: PROGRAM }, // of the role
    },
  },
  LockInspector: {
    class: LockInspector,
    of: { list: "lock list", get: "lock show", break: "lock break" },
  },
  Semaphore: {
    class: Semaphore,
    of: {
      ...{ acquire: PROGRAM, tryAcquire: PROGRAM, run: PROGRAM },
      ...{ resize: "semaphore resize", inspect: "semaphore show" },
    },
  },
  SemaphoreInspector: {
    class: SemaphoreInspector,
    of: { list: "semaphore list", get: "semaphore show", resize: "semaphore resize" },
  },
  Mailbox: {
    class: Mailbox,
    of: {
      ...{ send: "mailbox send", receive: "mailbox receive", listen: PROGRAM },
      ...{ acknowledge: "mailbox receive", peek: "mailbox peek" },
      ...{ deadLetters: "mailbox letters", counts: "mailbox show", clear: "mailbox clear" },
    },
  },
  Chat: {
    class: Chat,
    of: {
      ...{ room: PROGRAM, create: "chat create", pending: "chat watch" },
      ...{ unread: "chat unread", feed: "chat watch", rooms: "chat rooms" },
    },
  },
  Room: {
    class: Room,
    of: {
      ...{ send: "chat send", join: "chat join", leave: "chat leave", pending: "chat watch" },
      ...{ acknowledge: "chat acknowledge", unread: "chat unread", history: "chat read" },
      ...{ members: "chat members", inspect: "chat show", setTyping: PROGRAM },
      ...{ setPresent: PROGRAM, typing: "chat show", present: "chat show" },
    },
  },
  GroupMembers: {
    class: GroupMembers,
    of: {
      ...{ add: "autocomplete add-member", remove: "autocomplete remove-member" },
      ...{ use: "autocomplete use-member", search: "autocomplete members" },
      ...{ count: "autocomplete count", reindex: "autocomplete reindex" },
    },
  },
  RecentContacts: {
    class: RecentContacts,
    of: {
      ...{ add: "autocomplete add-contact", remove: "autocomplete remove-contact" },
      search: "autocomplete contacts",
    },
  },
  Files: {
    class: Files,
    of: { publish: "files send", receive: "files receive", end: "files end" },
  },
  Tasks: {
    class: cluster.tasks.constructor,
    of: {
      ...{ create: "task create", get: "task show", idOfName: "task list", list: "task list" },
      ...{ count: "task list", start: "task start", stop: "task stop", move: "task move" },
      ...{ leave: "nodes drain", unplace: PROGRAM, edit: "task edit", remove: "task remove" },
      ...{ offset: "task offset", ofGroups: PROGRAM },
    },
  },
  Nodes: {
    class: cluster.nodes.constructor,
    of: {
      ...{ list: "nodes list", get: "nodes show", drain: "nodes drain" },
      ...{ undrain: "nodes undrain", forget: "nodes remove" },
    },
  },
  Alerts: {
    class: cluster.alerts.constructor,
    of: {
      ...{ raise: PROGRAM, send: PROGRAM, open: "alerts list", isOpen: "alerts list" },
      ...{ resolve: PROGRAM, acknowledge: "alerts ack", get: "alerts show" },
      ...{ list: "alerts list", trim: PROGRAM, regroup: PROGRAM },
    },
  },
} satisfies Record<string, { class: { prototype: object }; of: Record<string, string> }>;

const known = new Set(
  createProgram().commands.flatMap((noun) =>
    noun.commands.map((verb) => `${noun.name()} ${verb.name()}`),
  ),
);

test.each(Object.entries(verbs))("every operation of %s has a verb", (_, { class: type, of }) => {
  const methods = Object.entries(Object.getOwnPropertyDescriptors(type.prototype))
    .filter(([name, { value }]) => typeof value === "function" && name !== "constructor")
    .map(([name]) => name);
  expect(methods.sort()).toEqual(Object.keys(of).sort());
  for (const verb of Object.values(of)) if (verb !== PROGRAM) expect(known).toContain(verb);
});
