/** Our v3 queue in a process of its own. */
import { connect } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import { QueueService } from "@ropeway/portal";
import { serve } from "../../remote.ts";

serve(async ({ url, prefix }: { url: string; prefix: string }) => {
  const redis = await connect(url);
  const queue = new MergeQueue(redis, { prefix });
  const service = await QueueService.start(queue, { port: 0, targets: ["loopback"] });
  return {
    port: () => Number(new URL(service.url).port),
    close: async () => {
      await service.close();
      await redis.close();
    },
  };
});
