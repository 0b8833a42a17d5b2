/** The permissions of the parts that come with the portal, to check grants without a portal. */

import { alertsPermissions } from "../alerts/alerts-part.ts";
import { jobsPermissions } from "../jobs/jobs-part.ts";
import { kitPermissions } from "../kit/kit-part.ts";
import { mergePermissions } from "../merge/merge-part.ts";
import { metricsPermissions } from "../metrics/metrics-part.ts";
import { nodesPermissions } from "../nodes/nodes-part.ts";
import { rpcPermissions } from "../rpc/rpc-part.ts";
import { tasksPermissions } from "../tasks/tasks-part.ts";
import { accessPermissions } from "./access-part.ts";
import { Policy } from "./permission.ts";
import { sessionPermissions } from "./session-part.ts";

/** What the built-in parts declare. */
export function builtInPolicy(): Policy {
  return new Policy(
    [
      jobsPermissions,
      kitPermissions,
      tasksPermissions,
      metricsPermissions,
      rpcPermissions,
      nodesPermissions,
      accessPermissions,
      sessionPermissions,
      alertsPermissions,
      mergePermissions,
    ].map((permissions) => ({ permissions })),
  );
}
