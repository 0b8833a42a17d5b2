/** What `ropeway semaphore ...` does. */
import { SemaphoreInspector } from "@ropeway/kit/semaphore";
import type { Context } from "../context.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";

/** The semaphores in use, page by page. */
export async function list(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  await using redis = await openRedis(await findRedis(context));
  const semaphores = new SemaphoreInspector(redis, { prefix: keyPrefix(context) });
  context.output.list(await semaphores.list(pageOf(context, limit)), {
    columns: {
      NAME: ({ name }) => name,
      HELD: ({ held }) => held,
      LIMIT: ({ limit: most }) => most ?? "-",
      WAITING: ({ waiting }) => waiting,
    },
    empty: "no semaphore is in use: pass --key-prefix if your program has a `prefix`",
  });
}
