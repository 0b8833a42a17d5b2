/** The responses about nodes. */
import { z } from "zod";

/** A node, or a portal. */
export interface NodeView {
  readonly id: string;
  readonly type: string;
  readonly address: string;
  readonly online: boolean;
  readonly draining: boolean;
  readonly version: string;
  readonly reason: string;
  readonly tasks: number;
  readonly maxTasks: number;
  readonly cpu: number;
  readonly memory: number;
  readonly types: readonly string[];
  readonly lastReportAt: string | null;
}
export const NodeView: z.ZodType<NodeView> = z.object({
  id: z.string(),
  type: z.string().describe("redissyncer nodes run tasks; portals inspect."),
  address: z.string(),
  online: z.boolean(),
  draining: z.boolean(),
  version: z.string(),
  reason: z.string().describe("Why it is offline."),
  tasks: z.number(),
  maxTasks: z.number(),
  cpu: z.number().describe("Load average per core."),
  memory: z.number().describe("The part of the machine's memory in use, 0 to 1."),
  types: z.array(z.string()).describe("Task types it can run."),
  lastReportAt: z.iso.datetime().nullable(),
});
