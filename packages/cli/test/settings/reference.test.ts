import { expect, test } from "vitest";
import { settingsReference } from "../../src/settings/reference.ts";

test("docs/reference/settings.md is in step with the settings (update with vitest -u)", async () => {
  await expect(settingsReference()).toMatchFileSnapshot("../../../../docs/reference/settings.md");
});
