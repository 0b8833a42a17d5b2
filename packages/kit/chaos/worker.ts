/**
 * A process that is killed at random. Its role and its Redis come in the environment; what it does to
 * the world goes to the log, a list in a Redis of its own that is never killed.
 *
 *   lock       enter FENCE, then leave FENCE or lost FENCE
 *   semaphore  in TOKEN, then out TOKEN or lost TOKEN
 *   reader     got N, then acknowledged
 *   sender     sent N (after Redis has accepted it)
 *   receiver   prints "saved" when it has a file
 */
import { connect } from "@ropeway/core";
import { Chat } from "../src/chat/index.ts";
import { Files, saveTo } from "../src/files/index.ts";
import { Lock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";

const { ROLE = "", REDIS_URL, LOG_URL, NAME = "", FOLDER = "" } = process.env;
const redis = await connect(REDIS_URL, { name: `chaos-${ROLE}` });
const log = await connect(LOG_URL);
const note = (text: string) => log.send(["RPUSH", ROLE, `${NAME} ${text}`]);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const roles: Readonly<Record<string, () => Promise<void>>> = {
  lock: async () => {
    const held = await new Lock(redis, "chaos", { ttlMs: 600 }).acquire({ waitMs: null });
    if (held.signal.aborted) return;
    await note(`enter ${held.fence}`);
    await pause(Math.random() * 20);
    await note(`${held.held ? "leave" : "lost"} ${held.fence}`);
    await held.release();
  },
  semaphore: async () => {
    const permit = await new Semaphore(redis, "sem", { limit: 3, ttlMs: 600 }).acquire({
      waitMs: null,
    });
    if (permit.signal.aborted) return;
    await note(`in ${permit.token}`);
    await pause(Math.random() * 20);
    await note(`${permit.held ? "out" : "lost"} ${permit.token}`);
    await permit.release();
  },
  reader: async () => {
    const mailbox = new Mailbox<number>(redis, "box", { leaseMs: 600, attempts: 1_000 });
    for (const delivery of await mailbox.receive({ max: 5, waitMs: 1_000 })) {
      await note(`got ${delivery.message}`);
      await pause(Math.random() * 5);
      await delivery.acknowledge();
    }
  },
  sender: async () => {
    const id = await new Chat<string>(redis).room("room").send(NAME, NAME);
    await note(`sent ${id}`);
    await pause(2);
  },
  receiver: async () => {
    const files = new Files(redis, "files:", { leaseMs: 30_000 });
    await files.receive(NAME, saveTo(FOLDER), { files: 1 });
    process.stdout.write("saved\n");
    await pause(600_000);
  },
};

const role = roles[ROLE];
if (role === undefined) throw new Error(`no role ${ROLE}`);
process.stdout.write("ready\n");
for (;;) {
  try {
    await role();
  } catch {
    await pause(20); // Redis is being restarted
  }
}
