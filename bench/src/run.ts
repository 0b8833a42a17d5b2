/**
 * Runs a bench. What makes its figures comparable is all here:
 *
 *   one Redis    fresh, on loopback TCP, without persistence; emptied between scenarios
 *   interleaved  a round is a few turns, a turn is one slice of each contender; the order rotates from
 *                turn to turn, and the median of a contender's slices is its sample of the round
 *   warm         round 0 is run like the others and dropped
 *   quiet        a slice during which strangers used more than a tenth of the machine is run again,
 *                a few times; the quietest is kept and its disturbance is reported
 *   right        a slice with one wrong result ends the run
 */
import { type RedisServer, startRedis } from "@ropeway/testkit";
import type { AgentConfig, AgentReport, OpenOrder } from "./agent.ts";
import type { Bench, Contender, Scenario } from "./bench.ts";
import { passage, readMeter } from "./meter.ts";
import { Remote } from "./remote.ts";
import { Results, type ScenarioResult, type Standing } from "./results.ts";
import { medianSample, type Sample, sampleOf } from "./sample.ts";
import { rotated } from "./statistics.ts";

/** How a run is made. */
export interface RunPlan {
  readonly rounds: number;
  /** Slices of each contender in one round. */
  readonly turns: number;
  readonly payload: number;
  /** Length of a slice of weight 1. */
  readonly sliceMs: number;
  /** How often a disturbed slice is run again; none once `retryUntil` has passed. */
  readonly retries: number;
  readonly retryUntil: number;
  /** Which peers take part; all when undefined. */
  readonly peers: readonly string[] | undefined;
  /** Only scenarios whose id contains this. */
  readonly only: string | undefined;
  readonly note: (sentence: string) => void;
}

/** A contender in its process. */
interface Player extends Contender {
  readonly agent: Remote;
  readonly samples: Sample[];
}

const FOREIGN_LIMIT = 0.1;
const QUIET_PAUSE_MS = 250;

/** The scenarios and contenders that a plan leaves. */
export function chosen(bench: Bench, plan: Pick<RunPlan, "peers" | "only">): Scenario[] {
  return bench.scenarios
    .filter(({ id }) => plan.only === undefined || id.includes(plan.only))
    .map((scenario) => ({
      ...scenario,
      contenders: scenario.contenders.filter(
        ({ name, role }) => role !== "peer" || (plan.peers?.includes(name) ?? true),
      ),
    }));
}

/** One run of one bench. */
export class Run {
  readonly #bench: Bench;
  readonly #plan: RunPlan;
  readonly #redis: RedisServer;
  readonly #agents = new Map<string, Promise<Remote>>();

  static async start(bench: Bench, plan: RunPlan): Promise<Run> {
    return new Run(bench, plan, await startRedis({ config: ["appendonly no"] }));
  }

  private constructor(bench: Bench, plan: RunPlan, redis: RedisServer) {
    this.#bench = bench;
    this.#plan = plan;
    this.#redis = redis;
  }

  /** The version of the Redis that is used. */
  async redisVersion(): Promise<string> {
    const info = String(await this.#redis.command("INFO", "server"));
    return /^redis_version:(\S+)/m.exec(info)?.[1] ?? "unknown";
  }

  /** Puts every scenario to every contender. */
  async results(): Promise<Results> {
    const results: ScenarioResult[] = [];
    for (const scenario of chosen(this.#bench, this.#plan)) {
      results.push(await this.#play(scenario));
    }
    return new Results(results);
  }

  async close(): Promise<void> {
    const agents = await Promise.allSettled(this.#agents.values());
    await Promise.allSettled(
      agents.map((agent) => (agent.status === "fulfilled" ? agent.value.close() : undefined)),
    );
    await this.#redis.close();
  }

  async #play(scenario: Scenario): Promise<ScenarioResult> {
    const { id, title, measure, baseline } = scenario;
    this.#plan.note(`${id}: ${title}`);
    const players: Player[] = [];
    const skipped = new Map<string, string>();
    for (const contender of scenario.contenders) {
      try {
        players.push(await this.#invite(contender, scenario));
      } catch (error) {
        if ((error as Error).name !== "Unavailable") throw error;
        skipped.set(contender.name, (error as Error).message);
        this.#plan.note(`${id}: ${contender.name} is left out: ${(error as Error).message}`);
      }
    }
    for (let round = 0; round <= this.#plan.rounds; round++) {
      await this.#round(players, scenario, round);
    }
    for (const { agent } of players) await agent.ask("leave");
    await this.#redis.command("FLUSHALL");
    const standings = scenario.contenders.map(({ name, role }): Standing => {
      const samples = players.find((player) => player.name === name)?.samples ?? [];
      const reason = skipped.get(name);
      return { name, role, samples, ...(reason === undefined ? {} : { skipped: reason }) };
    });
    return { scenario: { id, title, measure, baseline }, standings };
  }

  async #round(players: readonly Player[], scenario: Scenario, round: number): Promise<void> {
    const slices = new Map(players.map((player) => [player, [] as Sample[]]));
    for (let turn = 0; turn < this.#plan.turns; turn++) {
      for (const player of rotated(players, round * this.#plan.turns + turn)) {
        slices.get(player)?.push(await this.#slice(player, scenario, round));
      }
    }
    if (round === 0) return;
    for (const [player, samples] of slices) player.samples.push(medianSample(samples));
  }

  async #invite(contender: Contender, scenario: Scenario): Promise<Player> {
    const { name, role } = contender;
    const config: AgentConfig = { bench: this.#bench.name, contender: name };
    const forked =
      this.#agents.get(name) ?? Remote.fork(new URL("./agent.ts", import.meta.url), config);
    this.#agents.set(name, forked);
    const agent = await forked;
    const { url, host, port } = this.#redis;
    const { payload } = this.#plan;
    const prefix = `{bench:${name.replaceAll(/\W+/g, "-")}}`;
    const settings = { url, host, port, payload, prefix, sliceMs: this.#sliceMs(scenario) };
    await agent.ask("open", { scenario: scenario.id, settings } satisfies OpenOrder);
    return { name, role, open: contender.open, agent, samples: [] };
  }

  #sliceMs({ weight = 1 }: Scenario): number {
    return Math.round(this.#plan.sliceMs * weight);
  }

  async #slice(player: Player, scenario: Scenario, round: number): Promise<Sample> {
    const slice = { ms: this.#sliceMs(scenario), round };
    let best: Sample | undefined;
    for (let attempts = 1; ; attempts++) {
      await player.agent.ask("prepare", slice);
      const before = await readMeter(this.#redis);
      const report = await player.agent.ask<AgentReport>("run", slice);
      const passed = passage(before, await readMeter(this.#redis));
      const wrong = report.operations - report.checked;
      if (wrong !== 0 || report.operations === 0) {
        const found = wrong === 0 ? "did nothing" : `gave ${wrong} wrong results`;
        throw new Error(`${player.name} ${found} in ${scenario.id}, round ${round}`);
      }
      const sample = sampleOf(report, passed, round);
      if (best === undefined || sample.foreign < best.foreign) best = sample;
      const quiet = sample.foreign <= FOREIGN_LIMIT || round === 0;
      const late = performance.now() > this.#plan.retryUntil;
      if (quiet || late || attempts > this.#plan.retries)
        return { ...best, repeated: attempts - 1 };
      await new Promise((resolve) => setTimeout(resolve, QUIET_PAUSE_MS * attempts));
    }
  }
}
