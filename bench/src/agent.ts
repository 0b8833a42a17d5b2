/**
 * The process of one contender: opens its session for one scenario after another and runs slices
 * when told. It weighs its own CPU time around the slice, where nothing else is in between.
 */
import type { Session, Slice, Work } from "./bench.ts";
import { loadBench } from "./catalogue.ts";
import { cpuMicros, serve } from "./remote.ts";
import { Stage, type StageSettings } from "./stage.ts";

/** Which contender of which bench an agent is. */
export interface AgentConfig {
  readonly bench: string;
  readonly contender: string;
}

/** What an agent is told to open. */
export interface OpenOrder {
  readonly scenario: string;
  readonly settings: StageSettings;
}

/** A slice as the agent saw it. */
export interface AgentReport extends Work {
  readonly elapsedMs: number;
  /** Microseconds of CPU time of this process, and of those it forked. */
  readonly clientCpu: number;
  readonly workerCpu: number;
}

serve(async ({ bench: name, contender: who }: AgentConfig) => {
  const bench = await loadBench(name);
  let stage: Stage | undefined;
  let session: Session | undefined;

  async function leave(): Promise<void> {
    await session?.close();
    await stage?.close();
    session = stage = undefined;
  }

  return {
    open: async ({ scenario: id, settings }: OpenOrder) => {
      const scenario = bench.scenarios.find((candidate) => candidate.id === id);
      const contender = scenario?.contenders.find((candidate) => candidate.name === who);
      if (contender === undefined) throw new Error(`no contender ${who} in scenario ${id}`);
      stage = new Stage(settings);
      session = await contender.open(stage);
    },
    prepare: (slice: Slice) => session?.prepare?.(slice),
    run: async (slice: Slice): Promise<AgentReport> => {
      if (session === undefined || stage === undefined) throw new Error("run before open");
      const workersBefore = await stage.workerCpu();
      const clientBefore = cpuMicros();
      const startedAt = performance.now();
      const work = await session.run(slice);
      const elapsedMs = performance.now() - startedAt;
      const clientCpu = cpuMicros() - clientBefore;
      const workerCpu = (await stage.workerCpu()) - workersBefore;
      return { elapsedMs, ...work, clientCpu, workerCpu };
    },
    leave,
    close: leave,
  };
});
