/** What our own packages share and nobody else should rely on. */
export { Directory } from "./directory.ts";
export { JsonRpcDialect } from "./jsonrpc-dialect.ts";
export { attempts, dead, inFlight, JsonRpcKeys, KwKeys, leases, NAMESPACES } from "./keys.ts";
export { KwDialect } from "./kw-dialect.ts";
export { METRICS } from "./metrics.ts";
