/** The responses about alerts. */
import { z } from "zod";

const time = z.iso.datetime();

/** An alert. */
export interface AlertView {
  readonly id: string;
  readonly kind: string;
  readonly text: string;
  readonly subject: string;
  readonly group: string;
  readonly raisedAt: string;
  readonly count: number;
  readonly acknowledgedAt: string | null;
  readonly acknowledgedBy: string | null;
  readonly resolvedAt: string | null;
}
export const AlertView: z.ZodType<AlertView> = z.object({
  id: z.string(),
  kind: z.string().describe("task-broken, node-offline, node-unreachable or brake."),
  text: z.string(),
  subject: z.string().describe("The task or node."),
  group: z.string(),
  raisedAt: time,
  count: z.number().describe("How often it was raised."),
  acknowledgedAt: time.nullable(),
  acknowledgedBy: z.string().nullable(),
  resolvedAt: time.nullable(),
});
