/** The requests and responses about calls; see contract.ts. */
import { z } from "zod";

/** The statistics of one method at one worker. */
export interface RpcMethodStats {
  readonly calls: number;
  readonly errors: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
}
const stats = z.object({
  calls: z.int(),
  errors: z.int(),
  meanMs: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  perSecond: z.number().describe("Calls per second over the last ten seconds."),
});

/** One method as its service describes it. */
export interface RpcMethod {
  readonly name: string;
  readonly doc: string;
  readonly args: readonly string[];
  readonly returns: string;
  readonly kind: "unary" | "stream" | "duplex";
  readonly schema: unknown;
}
const method = z.object({
  name: z.string(),
  doc: z.string(),
  args: z.array(z.string()),
  returns: z.string(),
  kind: z.enum(["unary", "stream", "duplex"]),
  schema: z.unknown().describe("JSON Schemas of what goes in and out, if the service tells."),
});

/** One live worker. */
export interface RpcWorker {
  readonly node: string;
  readonly host: string | null;
  readonly pid: number | null;
  readonly version: string | null;
  readonly since: number | null;
  readonly running: number | null;
  readonly concurrency: number | null;
  readonly methods: Readonly<Record<string, RpcMethodStats>>;
}
const worker = z.object({
  node: z.string(),
  host: z.string().nullable(),
  pid: z.int().nullable(),
  version: z.string().nullable(),
  since: z.number().nullable().describe("Unix milliseconds."),
  running: z.int().nullable().describe("Calls it ran at its last heartbeat."),
  concurrency: z.int().nullable(),
  methods: z.record(z.string(), stats),
});

/** A service with everything known about it. */
export interface RpcService {
  readonly name: string;
  readonly waiting: number;
  readonly sessionWaiting: number;
  readonly inFlight: number;
  readonly dead: number;
  readonly methods: readonly RpcMethod[];
  readonly workers: readonly RpcWorker[];
}
const service = z.object({
  name: z.string(),
  waiting: z.int().describe("Calls that wait for a worker."),
  sessionWaiting: z.int().describe("Calls of sessions that wait for their node."),
  inFlight: z.int().describe("Calls that at-least-once workers have taken and not finished."),
  dead: z.int().describe("Messages that could not be run and were set aside."),
  methods: z.array(method),
  workers: z.array(worker),
});

/** All services of a namespace. */
export interface RpcServices {
  readonly services: readonly RpcService[];
}
export const RpcServices: z.ZodType<RpcServices> = z.object({ services: z.array(service) });

/** The namespaces of this Redis. */
export interface RpcNamespaces {
  readonly namespaces: readonly string[];
}
export const RpcNamespaces: z.ZodType<RpcNamespaces> = z.object({
  namespaces: z.array(z.string()),
});
