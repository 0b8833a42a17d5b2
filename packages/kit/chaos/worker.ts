/**
 * A process that is killed or paused at random. The environment sets its role and its Redis. It logs its
 * actions to a list in another Redis that is never killed.
 *
 *   lock       held FENCE TIME, after it has acquired the lock and before it releases it
 *   semaphore  held TOKEN TIME, as above
 *   reader     got N, before it acknowledges the message
 *   sender     sent N, after Redis has accepted the message
 *   receiver   prints "saved" after it has received a file
 */
import { connect } from "@ropeway/core";
import { Chat } from "../src/chat/index.ts";
import { Files, saveTo } from "../src/files/index.ts";
import { type HeldLock, Lock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { type Permit, Semaphore } from "../src/semaphore/index.ts";

const { ROLE = "", REDIS_URL, LOG_URL, NAME = "", FOLDER = "" } = process.env;
const redis = await connect(REDIS_URL, { name: `chaos-${ROLE}` });
const log = await connect(LOG_URL);
const note = (text: string) => log.send(["RPUSH", ROLE, `${NAME} ${text}`]);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Logs twice that it holds the lock or permit. It then also held it in between. */
async function hold(held: HeldLock | Permit, id: string): Promise<void> {
  for (const again of [true, false]) {
    // The time is read before `held`, so that a pause in between cannot make the logged time too late.
    const at = process.hrtime.bigint() / 1_000n;
    if (!held.held) break;
    await note(`held ${id} ${at}`);
    if (again) await pause(Math.random() * 20);
  }
  await held.release();
}

const roles: Readonly<Record<string, () => Promise<void>>> = {
  lock: async () => {
    const held = await new Lock(redis, "chaos", { ttlMs: 600 }).acquire({ waitMs: null });
    await hold(held, String(held.fence));
  },
  semaphore: async () => {
    const semaphore = new Semaphore(redis, "sem", { limit: 3, ttlMs: 600 });
    const permit = await semaphore.acquire({ waitMs: null });
    await hold(permit, permit.token);
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
    await pause(5);
  },
  receiver: async () => {
    const files = new Files(redis, "files:", { leaseMs: 30_000 });
    await files.receive(NAME, saveTo(FOLDER), { files: 1 });
    process.stdout.write("saved\n");
    await pause(600_000);
  },
};

const role = roles[ROLE];
if (role === undefined) throw new Error(`unknown role ${ROLE}`);
process.stdout.write("ready\n");
for (;;) {
  try {
    await role();
  } catch {
    await pause(20); // Redis is restarting
  }
}
