import { expect, test } from "vitest";
import { chaosLines, killAtRandom } from "../chaos/run.ts";

test("processes that are killed or paused never hold more than is allowed", async () => {
  const invariants = await killAtRandom({
    roles: ["lock", "semaphore"],
    kills: 4,
    killEveryMs: 200,
    redisKills: 0,
    workersPerRole: 2,
    messages: 0,
    fileBytes: 0,
    seed: 3,
  });
  expect(chaosLines(invariants).filter((line) => !line.endsWith("OK"))).toEqual([]);
}, 180_000);
