/**
 * The id of the Ropeway installation whose accounts and tasks a server stores. Copying one installation
 * onto another would replace them, and a task whose definition is in the target would delete itself. The id is
 * copied like any key, so a target that a task has filled has the source's id, and the task can resume.
 */
import { InvalidOptionError } from "@ropeway/core";
import { withoutPassword } from "@ropeway/core/internal";
import { KeyFilter } from "./key-filter.ts";
import type { ResolvedSyncOptions } from "./options.ts";
import type { Reply } from "./resp/reply-reader.ts";
import type { Source } from "./source/source.ts";
import { encodeCommand } from "./wire/encode.ts";

/** The key in the cluster's store; see its keys.ts. An installation with another prefix is not detected. */
const KEY = "ropeway:store:@state";

/** The command that reads the id. */
export const INSTALLATION_QUERY: string[] = ["HGET", KEY, "id"];

/** How to resolve a conflict of two installations. */
export const INSTALLATION_ADVICE =
  'leave the keys out with filter: { "refuse": { "prefixes": ["ropeway:store:"] } }, or delete them at the target';

/** Reads the id from the reply; undefined if there is none, or the server refused. */
export function installationId(reply: Reply | undefined): string | undefined {
  return Buffer.isBuffer(reply) && reply.length > 0 ? reply.toString() : undefined;
}

/** Throws InvalidOptionError if a source and the target belong to different installations. */
export async function refuseOtherInstallation(
  sources: readonly Source[],
  target: string | undefined,
  options: ResolvedSyncOptions,
): Promise<void> {
  const { filter, dbMap, rename, transform } = options;
  // The key may arrive under another name, or in another database.
  const elsewhere = dbMap !== undefined || rename !== undefined || transform !== undefined;
  if (target === undefined || elsewhere) return;
  if (!new KeyFilter(filter).accepts(Buffer.from(KEY))) return;
  for (const source of sources) {
    // attach() reports a source that cannot be reached.
    await using connection = await source.connect()?.catch(() => undefined);
    if (connection === undefined) continue;
    const [reply] = await connection.exchange(encodeCommand(INSTALLATION_QUERY), 1);
    const own = installationId(reply);
    if (own === undefined || own === target) continue;
    throw new InvalidOptionError(
      "to",
      withoutPassword(options.to),
      `a server without accounts and tasks of another Ropeway installation: ${INSTALLATION_ADVICE}`,
    );
  }
}
