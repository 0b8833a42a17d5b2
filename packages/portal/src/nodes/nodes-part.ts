/** The nodes of the cluster over HTTP. */
import type { Cluster, NodeView as ClusterNodeView } from "@ropeway/cluster";
import { Gauge } from "prom-client";
import { z } from "zod";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import type { PortalPart } from "../part.ts";
import { NodeView } from "./nodes-contract.ts";

const NodePage = z.object({ items: z.array(NodeView), cursor: z.string().nullable() });
const NodePath = z.object({ id: z.string().min(1).max(200) });

/** The permissions of its routes. */
export const nodesPermissions: PermissionSpecs = {
  "node:view": { least: "viewer", means: "See the nodes." },
  "node:operate": {
    least: "operator",
    means: "Drain nodes, and remove offline nodes.",
  },
};

/** The part for nodes. */
export function nodesPart({ nodes }: Cluster): PortalPart {
  return {
    name: "nodes",
    about: { en: "See the nodes and drain them.", zh: "查看节点并排空任务。" },
    permissions: nodesPermissions,
    routes(app) {
      app.get(
        "/api/nodes",
        {
          config: needs("node:view"),
          schema: { summary: "List nodes and portals", response: { 200: NodePage } },
        },
        async () => ({ items: (await nodes.list()).items.map(nodeView), cursor: null }),
      );
      for (const [verb, summary] of [
        ["drain", "Take no new tasks, and move the running ones away"],
        ["undrain", "Take tasks again"],
      ] as const) {
        app.post(
          `/api/nodes/:id/${verb}`,
          {
            config: needs("node:operate"),
            schema: { summary, params: NodePath, response: { 200: NodeView } },
          },
          async (request) => nodeView(await nodes[verb](NodePath.parse(request.params).id)),
        );
      }
      app.delete(
        "/api/nodes/:id",
        {
          config: needs("node:operate"),
          schema: {
            summary: "Remove a node that is offline",
            params: NodePath,
            response: { 204: z.undefined().describe("Done.") },
          },
        },
        async (request, reply) => {
          await nodes.forget(request.params.id);
          return reply.code(204).send();
        },
      );
    },
    metrics(registry) {
      new Gauge({
        name: "ropeway_nodes",
        help: "Nodes by type and state.",
        labelNames: ["type", "state"],
        registers: [registry],
        async collect() {
          const found = await nodes.list().catch(() => undefined);
          if (found === undefined) return; // while the store is unreachable, they keep their values
          this.reset();
          for (const { nodetype, online } of found.items) {
            this.inc({ type: nodetype, state: online ? "online" : "offline" });
          }
        },
      });
    },
  };
}

function nodeView(node: ClusterNodeView): NodeView {
  const { nodeid, nodetype, nodeaddr, nodeport, online, draining, version, reason, load } = node;
  return {
    id: nodeid,
    type: nodetype,
    address: nodeaddr === "" || nodeaddr === undefined ? "" : `http://${nodeaddr}:${nodeport}`,
    online,
    draining,
    version: version ?? "",
    reason: reason ?? "",
    tasks: load?.tasks ?? 0,
    maxTasks: load?.maxTasks ?? 0,
    cpu: load?.cpu ?? 0,
    memory: load?.memory ?? 0,
    types: node.types ?? [],
    lastReportAt: node.lastreporttime ? new Date(node.lastreporttime).toISOString() : null,
  };
}
