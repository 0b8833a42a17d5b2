/** Our worker: echoes. */
import { connect } from "@ropeway/core";
import { RpcServer } from "@ropeway/rpc";
import { serve } from "../../remote.ts";

serve(async (config: { url: string; prefix: string }) => {
  const redis = await connect(config.url);
  const server = new RpcServer(redis, { ns: config.prefix });
  await server.add("bench", { echo: (params: unknown) => params }).start();
  return {
    close: async () => {
      await server.close();
      await redis.close();
    },
  };
});
