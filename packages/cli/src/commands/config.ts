import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { Context } from "../context.ts";
import { redisOfHome } from "../redis-access.ts";
import { exampleToml } from "../settings/example.ts";
import { showSetting } from "../settings/load.ts";
import { settingKeys } from "../settings/table.ts";
import { paint } from "../terminal/colour.ts";

/** `ropeway config`: the settings in force; `ropeway config example`: a file to start from. */
export function configCommand(): CliCommand {
  const command = defineCommand("config", "Print the settings and where each comes from")
    .uses(...settingKeys)
    .describesSettings()
    .runs(printSettings);
  command.addCommand(
    defineCommand("example", "Print a ropeway.toml with every setting").runs(async ({ output }) => {
      output.result({ toml: exampleToml() }, ({ toml }) => output.block(toml));
    }),
  );
  return command;
}

async function printSettings({ settings, output }: Context): Promise<void> {
  const { values, origins, file } = settings();
  // Without a URL, commands use the Redis that `ropeway up` runs in this home.
  const own = values["redis.url"] === undefined ? await redisOfHome(values.home) : undefined;
  const rows = settingKeys.map((key) => {
    if (key === "redis.url" && own !== undefined) {
      return { key, value: own.url, source: "home", where: `ropeway up in ${own.where}` };
    }
    const shown = showSetting(key, values[key]);
    return { key, value: shown === "" ? null : JSON.parse(shown), ...origins[key] };
  });
  output.result({ file: file ?? null, settings: rows }, () => {
    output.table(
      ["SETTING", "VALUE", "FROM"],
      rows.map(({ key, value, source, where }) => [
        key,
        value === null ? "" : JSON.stringify(value),
        source === "default" ? paint("dim", where) : where,
      ]),
    );
  });
}
