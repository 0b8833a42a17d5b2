/** What `ropeway semaphore ...` does. */
import { show } from "@ropeway/core/internal";
import { SemaphoreInspector } from "@ropeway/kit/semaphore";
import type { Context } from "../context.ts";
import { NotFoundError, UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";

/** The semaphores in use, page by page. */
export async function list(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  await using redis = await openRedis(await findRedis(context));
  const semaphores = new SemaphoreInspector(redis, { prefix: keyPrefix(context) });
  const page = await namingFlags({}, () => semaphores.list(pageOf(context, limit)));
  context.output.list(page, {
    columns: {
      NAME: ({ name }) => name,
      HELD: ({ held }) => held,
      LIMIT: ({ limit: most }) => most ?? "-",
      WAITING: ({ waiting }) => waiting,
    },
    empty: "no semaphore is in use: pass --key-prefix if your program has a `prefix`",
  });
}

/** One semaphore. */
export async function showOne(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  await using redis = await openRedis(await findRedis(context));
  const use = await new SemaphoreInspector(redis, { prefix: keyPrefix(context) }).get(name);
  if (use === undefined) throw new NotFoundError("semaphore in use", name);
  const { held, waiting, limit } = use;
  context.output.details(
    { name, held, limit: limit ?? null, waiting },
    { name, held, limit: limit ?? "the limit of each process", waiting },
  );
}

/** Sets the limit that counts in all processes, or removes it. */
export async function resize(context: Context): Promise<void> {
  const [name = "", text = ""] = context.arguments;
  if (text !== "none" && !/^[1-9]\d{0,8}$/.test(text)) {
    throw new UsageError(
      `limit is ${show(text)}, but must be a whole number of at least 1, or none`,
    );
  }
  const limit = text === "none" ? undefined : Number(text);
  await using redis = await openRedis(await findRedis(context));
  await new SemaphoreInspector(redis, { prefix: keyPrefix(context) }).resize(name, limit);
  const now =
    limit === undefined ? "has the limit of each process again" : `has the limit ${limit}`;
  context.output.outcome("resized", { name, limit: limit ?? null }, `semaphore ${name} ${now}`);
}
