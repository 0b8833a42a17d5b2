import { expect, test } from "vitest";
import { ImaginedCluster, type ImaginedOptions } from "./imagined-cluster.ts";

/** The generator of Park and Miller. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48_271) % 0x7fffffff;
    return state % below;
  };
}

/** Lives three hundred lives; gives the first in which the target is not what the masters are. */
function firstDifference(options: Omit<ImaginedOptions, "masters" | "random">): object | undefined {
  for (let seed = 1; seed <= 300; seed++) {
    const cluster = new ImaginedCluster({
      ...{ masters: 2 + (seed % 3), random: randomFrom(seed) },
      ...options,
    });
    cluster.run();
    const [found, truth] = [cluster.target, cluster.truth].map((keys) => [...keys].sort());
    if (JSON.stringify(found) !== JSON.stringify(truth)) return { seed, found, truth };
  }
  return undefined;
}

test("slots that move in any direction, with streams as late as they like, leave what the masters have", () => {
  expect(firstDifference({ steps: 300 })).toBeUndefined();
});

test("slots that moved while no syncer ran leave what the masters have", () => {
  expect(firstDifference({ steps: 400, downUntil: 200 })).toBeUndefined();
});

test("a syncer that is killed while slots move knows later which keys are still to be read", () => {
  expect(firstDifference({ steps: 400, kills: true })).toBeUndefined();
});
