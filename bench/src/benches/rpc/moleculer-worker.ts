/** The echo worker of Moleculer. */
import { ServiceBroker } from "moleculer";
import { serve } from "../../remote.ts";

serve(async (config: { url: string; prefix: string }) => {
  const broker = new ServiceBroker({
    namespace: config.prefix,
    nodeID: "worker",
    transporter: config.url,
    logger: false,
  });
  broker.createService({
    name: "bench",
    actions: { echo: (context: { params: unknown }) => context.params },
  });
  await broker.start();
  return { close: () => broker.stop() };
});
