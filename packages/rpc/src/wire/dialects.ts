/** Selects the wire by the options, and refuses one that cannot work on a Cluster. */
import { type Clock, InvalidOptionError, type Redis } from "@ropeway/core";
import { isTagged } from "../keys.ts";
import type { WireOptions } from "../options.ts";
import type { Dialect } from "./dialect.ts";
import { JsonRpcDialect } from "./jsonrpc-dialect.ts";
import { KwDialect } from "./kw-dialect.ts";

/** The dialect that the options name. Throws InvalidOptionError. */
export function dialectOf(redis: Redis, options: Required<WireOptions>, clock: Clock): Dialect {
  const [name, home] = options.dialect === "kw" ? ["prefix", options.prefix] : ["ns", options.ns];
  if (redis.topology === "cluster" && !isTagged(home)) {
    throw new InvalidOptionError(name, home, 'a name with a hash tag, as in "{shop}", on Cluster');
  }
  return options.dialect === "kw"
    ? new KwDialect(options.prefix, () => clock.now())
    : new JsonRpcDialect(options.ns);
}
