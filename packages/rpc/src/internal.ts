/** Exports for our own packages only. They can change in any release. */
export { attempts, dead, inFlight, JsonRpcKeys, KwKeys, leases, NAMESPACES } from "./keys.ts";
export { Directory } from "./registry/directory.ts";
export { METRICS } from "./telemetry/metrics.ts";
export { JsonRpcDialect } from "./wire/jsonrpc-dialect.ts";
export { KwDialect } from "./wire/kw-dialect.ts";
