/** What `ropeway user ...` does. */
import { Accounts } from "@ropeway/portal";
import type { Context } from "../context.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { askPassword } from "./ask-password.ts";

type Verb = (context: Context) => Promise<void>;

async function list(context: Context): Promise<void> {
  const { output } = context;
  await using redis = await openRedis(await findRedis(context));
  const { prefix } = context.settings().values;
  const accounts = await new Accounts(redis, { prefix }).list();
  output.result(accounts, (all) => {
    output.table(
      ["NAME", "ROLE", "CREATED", "PASSWORD SET"],
      all.map(({ username, role, createdAt, passwordAt }) => {
        return [username, role, ...[createdAt, passwordAt].map((ms) => new Date(ms).toISOString())];
      }),
    );
  });
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
  output.result({ username, ...(generate ? { password: set } : {}) }, () => {
    if (generate) output.line(`${username} / ${set}   (shown only now)`);
    else output.line(`the password of ${username} is set; its sessions have ended`);
  });
}

/** By the name of the verb on the command line. */
export const verbs: Readonly<Record<"list" | "password", Verb>> = { list, password };
