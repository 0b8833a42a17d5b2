/**
 * Runs a bench. What makes its figures comparable is all here:
 *
 *   one Redis    fresh, on loopback TCP, without persistence; emptied between scenarios
 *   interleaved  a round is a few turns, a turn is one slice of each contender; the order rotates from
 *                turn to turn, and the median of a contender's slices is its sample of the round; turns in
 *                which somebody was disturbed count only if there is no other
 *   warm         round 0 is run like the others and dropped
 *   quiet        a slice during which strangers used more than a tenth of the machine is run again,
 *                a few times; the quietest is kept and its disturbance is reported
 *   right        a slice with one wrong result ends the run
 */
import { type RedisServer, startRedis } from "@ropeway/testkit";
import type { AgentConfig, AgentReport, OpenOrder } from "./agent.ts";
import type { Bench, Contender, Scenario, Slice } from "./bench.ts";
import { passage, readMeter } from "./meter.ts";
import { type Allowance, Pace } from "./pace.ts";
import { Remote } from "./remote.ts";
import { Results, type ScenarioResult, type Standing } from "./results.ts";
import { FOREIGN_LIMIT, medianSample, quietTurns, type Sample, sampleOf } from "./sample.ts";
import { rotated } from "./statistics.ts";

/** How a run is made. */
export interface RunPlan {
  readonly rounds: number;
  /** Slices of each contender in one round. */
  readonly turns: number;
  readonly payload: number;
  readonly allowance: Allowance;
  /** Which peers take part; all when undefined. */
  readonly peers: readonly string[] | undefined;
  /** Only scenarios whose id contains this. */
  readonly only: string | undefined;
  readonly note: (sentence: string) => void;
}

/** A contender in its process. */
interface Player {
  readonly name: string;
  readonly agent: Remote;
  readonly samples: Sample[];
}

interface ScenarioSlice extends Slice {
  readonly scenario: string;
}

interface Round extends ScenarioSlice {
  readonly turns: number;
}

const ATTEMPTS = 5;
const QUIET_PAUSE_MS = 150;

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
  readonly #pace: Pace;
  readonly #agents = new Map<string, Promise<Remote>>();

  static async start(bench: Bench, plan: RunPlan): Promise<Run> {
    return new Run(bench, plan, await startRedis({ config: ["appendonly no"] }));
  }

  private constructor(bench: Bench, plan: RunPlan, redis: RedisServer) {
    this.#bench = bench;
    this.#plan = plan;
    this.#redis = redis;
    const slices = chosen(bench, plan).reduce((sum, scenario) => sum + this.#slicesOf(scenario), 0);
    this.#pace = new Pace(plan.allowance, slices);
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
    const sliceMs = this.#pace.begin(this.#slicesOf(scenario)) * (scenario.weight ?? 1);
    this.#plan.note(`${id}: ${title}`);
    const players: Player[] = [];
    const skipped = new Map<string, string>();
    for (const contender of scenario.contenders) {
      try {
        players.push(await this.#invite(contender, scenario.id, sliceMs));
      } catch (error) {
        if ((error as Error).name !== "Unavailable") throw error;
        skipped.set(contender.name, (error as Error).message);
        this.#plan.note(`${id}: ${contender.name} is left out: ${(error as Error).message}`);
      }
    }
    for (let round = 0; round <= this.#plan.rounds; round++) {
      const turns = this.#turnsOf(scenario);
      await this.#round(players, { scenario: id, ms: sliceMs, round, turns });
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

  async #round(players: readonly Player[], { turns: count, ...slice }: Round): Promise<void> {
    const turns: Sample[][] = [];
    for (let turn = 0; turn < count; turn++) {
      const samples: Sample[] = [];
      const order = rotated([...players.keys()], slice.round * count + turn);
      for (const at of order) samples[at] = await this.#quietSlice(players[at] as Player, slice);
      turns.push(samples);
    }
    if (slice.round === 0) return;
    const counted = quietTurns(turns);
    for (const [at, player] of players.entries()) {
      player.samples.push(medianSample(counted.map((turn) => turn[at] as Sample)));
    }
  }

  async #invite(contender: Contender, scenario: string, sliceMs: number): Promise<Player> {
    const { name } = contender;
    const config: AgentConfig = { bench: this.#bench.name, contender: name };
    const forked =
      this.#agents.get(name) ?? Remote.fork(new URL("./agent.ts", import.meta.url), config);
    this.#agents.set(name, forked);
    const agent = await forked;
    const { url, host, port } = this.#redis;
    const { payload } = this.#plan;
    const prefix = `{bench:${name.replaceAll(/\W+/g, "-")}}`;
    const settings = { url, host, port, payload, prefix, sliceMs };
    await agent.ask("open", { scenario, settings } satisfies OpenOrder);
    return { name, agent, samples: [] };
  }

  /** Slices of a scenario in the whole run, counted as if all of them had weight 1. */
  #slicesOf(scenario: Scenario): number {
    const { contenders, weight = 1 } = scenario;
    return contenders.length * this.#turnsOf(scenario) * (this.#plan.rounds + 1) * weight;
  }

  #turnsOf({ turns = this.#plan.turns }: Scenario): number {
    return turns;
  }

  /** The first slice that strangers left alone, or the least disturbed of a few. */
  async #quietSlice(player: Player, slice: ScenarioSlice): Promise<Sample> {
    let best: Sample | undefined;
    for (let repeated = 0; ; repeated++) {
      const startedAt = performance.now();
      const sample = await this.#slice(player, slice);
      const tookMs = performance.now() - startedAt;
      this.#pace.noteOverhead(tookMs - slice.ms);
      if (best === undefined || sample.foreign < best.foreign) best = sample;
      const quiet = sample.foreign <= FOREIGN_LIMIT || slice.round === 0;
      const pauseMs = QUIET_PAUSE_MS * (repeated + 1);
      if (quiet || repeated + 1 === ATTEMPTS || !this.#pace.mayRepeat(tookMs + pauseMs)) {
        return { ...best, repeated };
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  async #slice({ name, agent }: Player, { scenario, ...slice }: ScenarioSlice): Promise<Sample> {
    await agent.ask("prepare", slice);
    const before = await readMeter(this.#redis);
    const report = await agent.ask<AgentReport>("run", slice);
    const passed = passage(before, await readMeter(this.#redis));
    const wrong = report.operations - report.checked;
    if (wrong !== 0 || report.operations === 0) {
      const found = wrong === 0 ? "did nothing" : `gave ${wrong} wrong results`;
      throw new Error(`${name} ${found} in ${scenario}, round ${slice.round}`);
    }
    return sampleOf(report, passed, slice.round);
  }
}
