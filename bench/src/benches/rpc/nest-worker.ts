/** The echo worker of NestJS. It uses the classes of the transport without an application. */
import "reflect-metadata";
import { Logger } from "@nestjs/common";
import { ServerRedis } from "@nestjs/microservices";
import { serve } from "../../remote.ts";

Logger.overrideLogger(false);

serve(async (config: { host: string; port: number; prefix: string }) => {
  const { host, port, prefix } = config;
  const server = new ServerRedis({ host, port });
  server.addHandler(`${prefix}.echo`, async (data: unknown) => data);
  await new Promise<void>((resolve) => server.listen(() => resolve()));
  return { close: () => server.close() };
});
