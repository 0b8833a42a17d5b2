/**
 * The process of one contender. It opens a session per scenario, runs slices on request, and measures
 * its own CPU time directly before and after each slice.
 */
import type { Session, Slice, Work } from "./bench.ts";
import { loadBench } from "./catalogue.ts";
import { cpuMicros, serve } from "./remote.ts";
import { Stage, type StageSettings } from "./stage.ts";

/** The bench and the contender of an agent. */
export interface AgentConfig {
  readonly bench: string;
  readonly contender: string;
}

/** The scenario that an agent opens, with its settings. */
export interface OpenOrder {
  readonly scenario: string;
  readonly settings: StageSettings;
}

/** The agent's measurements of one slice. */
export interface AgentReport extends Work {
  readonly elapsedMs: number;
  /** Microseconds of CPU time of this process, and of its workers. */
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
      if (session === undefined || stage === undefined)
        throw new Error("run was called before open");
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
