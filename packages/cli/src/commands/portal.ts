import { type CliCommand, defineCommand } from "../cli-command.ts";

/** `ropeway portal`: the portal alone, on a Redis that runs already. */
export function portalCommand(): CliCommand {
  return defineCommand("portal", "Serve the portal on a Redis that runs already")
    .uses("home", "redis.url", "redis.passwordFile", "portal.host", "portal.port")
    .uses("portal.prefix", "portal.adminPasswordFile", "log.level")
    .runs(async (context) => (await import("../portal/serve.ts")).servePortal(context));
}
