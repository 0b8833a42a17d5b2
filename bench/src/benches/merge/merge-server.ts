/** The process of our merge queue. */
import { connect } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import { MergeServer } from "@ropeway/portal";
import { serve } from "../../remote.ts";

serve(async ({ url, prefix }: { url: string; prefix: string }) => {
  const redis = await connect(url);
  const queue = new MergeQueue(redis, { prefix });
  const service = await new MergeServer(queue, { port: 0, allow: ["loopback"] }).start();
  return {
    port: () => Number(new URL(service.url).port),
    close: async () => {
      await service.close();
      await redis.close();
    },
  };
});
