/** The health check of a node: GET /healthz. */
import { get } from "node:http";
import { sleep } from "@ropeway/core/internal";

/** How to check a node. */
export interface ProbePlan {
  readonly url: string;
  /** Another program may have the port by now. */
  readonly nodeId: string;
  readonly probes: number;
  readonly probeEveryMs: number;
  readonly probeTimeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Whether one of several probes succeeds. They are spaced, so that a short pause does not count as down, and none
 * waits for the one before it: a node that hangs costs one timeout and not one for each probe.
 */
export async function answers(plan: ProbePlan): Promise<boolean> {
  if (plan.url === "") return false;
  const { probes, probeEveryMs } = plan;
  const decided = new AbortController();
  const signal = AbortSignal.any([plan.signal, decided.signal]);
  const probing = Array.from({ length: probes }, async (_, n) => {
    if (n > 0) await sleep(n * probeEveryMs, signal);
    if (!(await probe({ ...plan, signal }))) throw new Error(`no response to probe ${n + 1}`);
  });
  try {
    await Promise.any(probing);
    return true;
  } catch (error) {
    if (plan.signal.aborted) throw error; // the round is over: this says nothing about the node
    return false;
  } finally {
    decided.abort();
  }
}

function probe({ url, nodeId, probeTimeoutMs, signal }: ProbePlan): Promise<boolean> {
  return new Promise((resolve) => {
    // `agent: false`: no connection stays open. The timer limits the whole check, also a body that arrives slowly.
    const request = get(url, { agent: false, signal }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text = (text + part).slice(0, 4_096);
      });
      response.once("error", () => done(false));
      response.once("end", () => done(response.statusCode === 200 && isNode(text, nodeId)));
    });
    const timer = setTimeout(() => request.destroy(), probeTimeoutMs);
    const done = (result: boolean) => {
      clearTimeout(timer);
      resolve(result);
    };
    request.once("error", () => done(false));
    request.once("close", () => done(false));
  });
}

function isNode(text: string, nodeId: string): boolean {
  try {
    return (JSON.parse(text) as { nodeId?: unknown }).nodeId === nodeId;
  } catch {
    return false;
  }
}
