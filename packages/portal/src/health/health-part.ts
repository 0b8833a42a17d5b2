/** /healthz: the process is alive. /readyz: it can do its work. */
import type { Redis } from "@ropeway/core";
import { z } from "zod";
import { needs } from "../access/permission.ts";
import { Health, Readiness as ReadinessView } from "../contract.ts";
import type { PortalPart } from "../part.ts";
import { VERSION } from "../version.ts";
import type { Readiness } from "./readiness.ts";
import { ping } from "./store.ts";

const Verbose = z.object({
  verbose: z
    .enum(["", "true", "1", "false", "0"])
    .optional()
    .describe("Lists each probe; ?verbose is enough."),
});

/** The part for health; readiness knows every part's probes and so comes last. */
export function healthPart(redis: Redis, readiness: () => Readiness): PortalPart {
  return {
    name: "health",
    about: {
      en: "Whether the portal is alive and ready, for load balancers and orchestrators.",
      zh: "供负载均衡和编排系统查询：进程存活、服务就绪。",
    },
    probes: {
      redis: () => ping(redis),
    },
    routes(app) {
      app.get(
        "/healthz",
        {
          config: needs("public"),
          schema: { summary: "The process is alive", response: { 200: Health } },
        },
        () => ({ status: "ok" as const, version: VERSION }),
      );
      app.get(
        "/readyz",
        {
          config: { ...needs("public"), ownBound: true },
          schema: {
            summary: "The portal can serve requests",
            description: "503 while Redis does not answer, or while the portal shuts down.",
            querystring: Verbose,
            response: { 200: ReadinessView, 503: ReadinessView },
          },
        },
        async (request, reply) => {
          const { ready, draining, probes } = await readiness().check();
          const verbose = ["", "true", "1"].includes(request.query.verbose ?? "no");
          reply.code(ready ? 200 : 503);
          return verbose ? { ready, draining, probes } : { ready, draining };
        },
      );
    },
  };
}
