/**
 * Every command there is. A new one is a file in commands/ and a line here. These files only declare what a
 * command is called and takes; the work is imported when a verb runs, so that `--help` is fast.
 */
import type { CliCommand } from "./cli-command.ts";
import { alertsCommand } from "./commands/alerts.ts";
import { auditCommand } from "./commands/audit.ts";
import { autocompleteCommand } from "./commands/autocomplete.ts";
import { chatCommand } from "./commands/chat.ts";
import { completionCommand } from "./commands/completion.ts";
import { configCommand } from "./commands/config.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { filesCommand } from "./commands/files.ts";
import { jobsCommand } from "./commands/jobs.ts";
import { lockCommand } from "./commands/lock.ts";
import { mailboxCommand } from "./commands/mailbox.ts";
import { mergeCommand } from "./commands/merge.ts";
import { nodeCommand } from "./commands/node.ts";
import { nodesCommand } from "./commands/nodes.ts";
import { portalCommand } from "./commands/portal.ts";
import { rdbCommand } from "./commands/rdb.ts";
import { roleCommand } from "./commands/role.ts";
import { rpcCommand } from "./commands/rpc.ts";
import { semaphoreCommand } from "./commands/semaphore.ts";
import { syncCommand } from "./commands/sync.ts";
import { taskCommand } from "./commands/task.ts";
import { tokenCommand } from "./commands/token.ts";
import { upCommand } from "./commands/up.ts";
import { userCommand } from "./commands/user.ts";
import { versionCommand } from "./commands/version.ts";

export const commands: readonly (() => CliCommand)[] = [
  upCommand,
  portalCommand,
  nodeCommand,
  taskCommand,
  nodesCommand,
  alertsCommand,
  mergeCommand,
  jobsCommand,
  rpcCommand,
  syncCommand,
  lockCommand,
  semaphoreCommand,
  mailboxCommand,
  chatCommand,
  autocompleteCommand,
  filesCommand,
  rdbCommand,
  userCommand,
  roleCommand,
  tokenCommand,
  auditCommand,
  doctorCommand,
  configCommand,
  completionCommand,
  versionCommand,
];
