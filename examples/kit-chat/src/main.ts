/** A room, two readers with live feeds, and one that comes late and reads what it missed. */
import { connect } from "@ropeway/core";
import { Chat } from "@ropeway/kit/chat";

const redis = await connect(process.env.REDIS_URL);
const chat = new Chat<string>(redis, { prefix: "example" });
const room = await chat.create({ sender: "joe", recipients: ["jeff", "jenny"], message: "hello" });

async function read(user: string, last: number): Promise<void> {
  const controller = new AbortController();
  for await (const event of chat.feed(user, { signal: controller.signal })) {
    if (event.type !== "message") continue;
    if (user === "jeff") console.log(`${event.id} ${event.sender}: ${event.message}`);
    await room.acknowledge(user, event.id);
    if (event.id === last) break;
  }
}

const reading = read("jeff", 3);
await room.send("jenny", "hi");
await room.send("joe", "how are you?");
await reading;
console.log(`jenny has ${await room.unread("jenny")} unread messages`);
await read("jenny", 3);
console.log(`jenny has ${await room.unread("jenny")} unread messages`);
for (const user of ["joe", "jeff", "jenny"]) await room.leave(user);
await redis.close();
