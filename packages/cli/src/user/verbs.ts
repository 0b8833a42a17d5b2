/** What `ropeway user ...` does. */
import { Accounts } from "@ropeway/portal";
import type { Context } from "../context.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { isoTime } from "../terminal/time.ts";
import { askPassword } from "./ask-password.ts";

type Verb = (context: Context) => Promise<void>;

async function list(context: Context): Promise<void> {
  const { output } = context;
  await using redis = await openRedis(await findRedis(context));
  const { prefix } = context.settings().values;
  const accounts = await new Accounts(redis, { prefix }).list();
  const items = accounts.map((account) => ({
    ...account,
    createdAt: isoTime(account.createdAt),
    passwordAt: isoTime(account.passwordAt),
  }));
  output.list(
    { items },
    {
      columns: {
        NAME: ({ username }) => username,
        ROLE: ({ role }) => role,
        CREATED: ({ createdAt }) => createdAt,
        "PASSWORD SET": ({ passwordAt }) => passwordAt,
      },
      empty: "no accounts yet: the first start of `ropeway up` or `ropeway portal` creates admin",
    },
  );
}

async function password(context: Context): Promise<void> {
  const { output, options } = context;
  const [username = ""] = context.arguments;
  const generate = options.generate === true;
  const place = await findRedis(context);
  const given = generate ? undefined : await askPassword(username, context);
  await using redis = await openRedis(place);
  const { prefix } = context.settings().values;
  const accounts = new Accounts(redis, { prefix });
  const set = await namingFlags({ password: "the password" }, () =>
    accounts.setPassword(username, given),
  );
  output.outcome(
    "password-set",
    { username, ...(generate ? { password: set } : {}) },
    generate
      ? `${username} / ${set}   (shown only once)`
      : `Password of ${username} set. Its sessions have ended.`,
  );
}

/** By the name of the verb on the command line. */
export const verbs: Readonly<Record<"list" | "password", Verb>> = { list, password };
