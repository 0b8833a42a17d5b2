/** Our echo worker. */
import { connect } from "@ropeway/core";
import { RpcServer } from "@ropeway/rpc";
import { serve } from "../../remote.ts";
import { typed } from "./typed-service.ts";

serve(async (config: { url: string; prefix: string }) => {
  const redis = await connect(config.url);
  const server = new RpcServer(redis, { ns: config.prefix });
  server.add("bench", { echo: (params: unknown) => params });
  await server.add(typed, { echo: (params) => params }).start();
  return {
    close: async () => {
      await server.close();
      await redis.close();
    },
  };
});
