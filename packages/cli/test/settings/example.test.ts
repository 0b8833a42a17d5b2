import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { exampleToml } from "../../src/settings/example.ts";
import { secretKind } from "../../src/settings/kind.ts";
import { partsOf, settingKeys, specOf } from "../../src/settings/table.ts";

test("ropeway.example.toml is in step with the settings (update with vitest -u)", async () => {
  await expect(exampleToml()).toMatchFileSnapshot("../../../../ropeway.example.toml");
});

test("with every line in use the example is valid TOML that holds every key and its default", () => {
  const file = parse(exampleToml().replace(/^# (?=\w+ = )/gm, "")) as Record<string, unknown>;
  for (const key of settingKeys) {
    const { kind, default: usual, example } = specOf(key);
    if (kind === secretKind) continue;
    const { section, name } = partsOf(key);
    const place = (section === "" ? file : file[section]) as Record<string, unknown>;
    expect(place[name], key).toEqual(usual ?? example);
    expect(kind.fault(place[name]), key).toBeUndefined();
  }
});
