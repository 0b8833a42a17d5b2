/**
 * Runs a bench. These rules make the figures comparable:
 *
 *   one Redis    a new server on loopback TCP, without persistence, emptied between scenarios
 *   interleaved  A round has several turns, and a turn has one slice of each contender. The order rotates
 *                from turn to turn. The median of a contender's slices is its sample of the round. Disturbed
 *                turns count only if all turns are disturbed.
 *   warm         round 0 runs like the others and is discarded
 *   quiet        A slice is disturbed if other processes used more than a tenth of the machine. It is
 *                repeated a few times. The least disturbed one is kept, and its disturbance is reported.
 *   checked      a slice with one wrong result ends the run
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

/** The options of a run. */
export interface RunPlan {
  readonly rounds: number;
  /** Slices of each contender in one round. */
  readonly turns: number;
  readonly payload: number;
  readonly allowance: Allowance;
  /** The peers to measure. Defaults to all. */
  readonly peers: readonly string[] | undefined;
  /** Runs only scenarios whose id contains this string. */
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

/** The scenarios and contenders that a plan selects. */
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

  /** The version of the Redis server. */
  async redisVersion(): Promise<string> {
    const info = String(await this.#redis.command("INFO", "server"));
    return /^redis_version:(\S+)/m.exec(info)?.[1] ?? "unknown";
  }

  /** Runs every scenario with every contender. */
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
        this.#plan.note(`${id}: ${contender.name} is skipped: ${(error as Error).message}`);
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

  /** The number of slices of a scenario in the whole run, multiplied by their weight. */
  #slicesOf(scenario: Scenario): number {
    const { contenders, weight = 1 } = scenario;
    return contenders.length * this.#turnsOf(scenario) * (this.#plan.rounds + 1) * weight;
  }

  #turnsOf({ turns = this.#plan.turns }: Scenario): number {
    return turns;
  }

  /** The first undisturbed slice, or the least disturbed of a few. */
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
      const found = wrong === 0 ? "did nothing" : `returned ${wrong} wrong results`;
      throw new Error(`${name} ${found} in ${scenario}, round ${slice.round}`);
    }
    return sampleOf(report, passed, slice.round);
  }
}
