/** A worker of the documented Python wire: BRPOP, run, LPUSH to the response key of the call, EXPIRE. */
import { createClient } from "@redis/client";
import { serve } from "../../remote.ts";

serve(async (config: { url: string; prefix: string }) => {
  const client = createClient({ url: config.url, RESP: 2 });
  await client.connect();
  let open = true;
  const loop = async () => {
    while (open) {
      const command = ["BRPOP", `/api/${config.prefix}/request/bench`, "1"];
      const popped = await client.sendCommand<[string, string] | null>(command);
      if (popped === null) continue;
      const { id, params } = JSON.parse(popped[1]) as { id: string; params: unknown };
      const key = `/api/${config.prefix}/response/${id}`;
      await client.sendCommand(["LPUSH", key, JSON.stringify({ id, result: params })]);
      await client.sendCommand(["EXPIRE", key, "120"]);
    }
  };
  const running = loop();
  return {
    close: async () => {
      open = false;
      await running;
      await client.close();
    },
  };
});
