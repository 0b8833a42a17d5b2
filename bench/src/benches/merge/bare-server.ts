/** A minimal HTTP push: a Fastify route that reads JSON and calls one script. */
import type { AddressInfo } from "node:net";
import { connect, defineScript } from "@ropeway/core";
import fastify from "fastify";
import { serve } from "../../remote.ts";

const append = defineScript<number>(new URL("../../../lua/append.lua", import.meta.url));

interface Path {
  Params: { key: string; method: string; service: string };
  Querystring: { ontime?: string };
}

serve(async ({ url, prefix }: { url: string; prefix: string }) => {
  const redis = await connect(url);
  const app = fastify({ routerOptions: { maxParamLength: 1_000 } });
  app.post<Path>("/v3/queue/:key/:method/:service", async (request, reply) => {
    const { key, method, service } = request.params;
    const name = `${key} ${service} ${method}`;
    const keys = [`${prefix}:queue:${name}`, `${prefix}:timer`];
    const body = JSON.stringify(request.body);
    const items = await redis.run(append, keys, [name, request.query.ontime ?? "0", body]);
    reply.code(202);
    return { key, items };
  });
  await app.listen({ host: "127.0.0.1", port: 0 });
  return {
    port: () => (app.server.address() as AddressInfo).port,
    close: async () => {
      await app.close();
      await redis.close();
    },
  };
});
