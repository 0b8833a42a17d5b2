/** The process of a receiver, which counts the items of the arrays in its requests. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "../../remote.ts";

serve(async () => {
  let items = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
      items += Array.isArray(body) ? body.length : 1;
      response.end();
    });
  });
  server.keepAliveTimeout = 0; // connections are idle during the slices of other contenders
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: () => (server.address() as AddressInfo).port,
    items: () => items,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
});
