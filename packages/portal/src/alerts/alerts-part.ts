/** The alerts of the cluster over HTTP. */
import type { Alert, Cluster } from "@ropeway/cluster";
import { Gauge } from "prom-client";
import { z } from "zod";
import { callerOf, rightsOf } from "../access/guard.ts";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import { isoTime, isoTimeOrEpoch } from "../http/iso-time.ts";
import type { PortalPart } from "../part.ts";
import { AlertView } from "./alerts-contract.ts";

const AlertPage = z.object({ items: z.array(AlertView), cursor: z.string().nullable() });
const AlertPath = z.object({ id: z.string().min(1).max(64) });
const AlertQuery = z.object({
  all: z.enum(["true", "false"]).default("false").describe("Include resolved alerts."),
  cursor: z.string().max(500).optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
});

/** The permissions of its routes. */
export const alertsPermissions: PermissionSpecs = {
  "alert:view": { least: "viewer", means: "See alerts." },
  "alert:operate": { least: "operator", means: "Acknowledge alerts." },
};

/** The part for alerts. */
export function alertsPart({ alerts }: Cluster): PortalPart {
  return {
    name: "alerts",
    about: { en: "What needs attention.", zh: "需要关注的告警。" },
    permissions: alertsPermissions,
    routes(app) {
      app.get(
        "/api/alerts",
        {
          config: needs("alert:view"),
          schema: { summary: "List alerts", querystring: AlertQuery, response: { 200: AlertPage } },
        },
        async (request) => {
          const { all, ...paging } = request.query;
          const { groups } = rightsOf(request);
          const { items, cursor } = await alerts.list({ ...paging, groups, all: all === "true" });
          return { items: items.map(alertView), cursor: cursor ?? null };
        },
      );
      app.post(
        "/api/alerts/:id/ack",
        {
          config: needs("alert:operate"),
          schema: {
            summary: "Acknowledge the alert",
            params: AlertPath,
            response: { 200: AlertView },
          },
        },
        async (request) => {
          const { groups } = rightsOf(request);
          const { username } = callerOf(request).account;
          return alertView(await alerts.acknowledge(request.params.id, username, groups));
        },
      );
    },
    metrics(registry) {
      new Gauge({
        name: "ropeway_alerts_open",
        help: "Alerts that are not resolved, by kind.",
        labelNames: ["kind"],
        registers: [registry],
        async collect() {
          const found = await alerts.open().catch(() => undefined);
          if (found === undefined) return; // while the store is unreachable, they keep their values
          this.reset();
          for (const { kind } of found.values()) this.inc({ kind });
        },
      });
    },
  };
}

function alertView(alert: Alert): AlertView {
  const { cause: _cause, sentAt: _sentAt, raisedAt, acknowledgedAt, resolvedAt, ...rest } = alert;
  return {
    ...rest,
    raisedAt: isoTimeOrEpoch(raisedAt),
    acknowledgedAt: isoTime(acknowledgedAt),
    resolvedAt: isoTime(resolvedAt),
  };
}
