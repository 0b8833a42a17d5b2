/** A receiver in a process of its own: counts the items of the arrays that it is sent. */
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
  server.keepAliveTimeout = 0; // lanes are idle while the others have their slice
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
