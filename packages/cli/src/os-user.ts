import { userInfo } from "node:os";

/** Who runs this command, as the audit log names it: `cli:anna`, or `cli:uid-1000` without a name. */
export function cliActor(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    // A container may run under a user id that /etc/passwd does not have.
    return `cli:uid-${process.getuid?.() ?? "unknown"}`;
  }
}
