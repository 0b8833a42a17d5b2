// Starts servers and closes none, except one, whose number the guardian has to forget.
import { startRedis } from "@ropeway/testkit";

const servers = [await startRedis(), await startRedis(), await startRedis()];
const [closed, running, frozen] = servers;
await closed?.close();
frozen?.pause();

const left = [running, frozen];
const ports = left.map((server) => server?.port).join();
process.stdout.write(`started ${ports} ${left.map((server) => server?.dir).join()}\n`);
