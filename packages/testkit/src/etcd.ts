import { TestkitError } from "./errors.ts";
import { EtcdMember, type EtcdPlan } from "./etcd-member.ts";
import { eventually } from "./eventually.ts";
import type { OtherVersion } from "./other-server.ts";
import { freePorts } from "./port.ts";
import { program } from "./program.ts";
import { orClose } from "./together.ts";

/** Options of `startEtcd`. */
export interface EtcdOptions {
  /** @default 1 */
  readonly members?: 1 | 3;
  /** Extra flags for each member, such as `["--quota-backend-bytes=16777216"]`. */
  readonly args?: readonly string[];
  /** A release other than the installed one. */
  readonly version?: Extract<OtherVersion, `etcd-${string}`>;
}

/** Starts one or three etcd members and waits until all of them serve clients. */
export async function startEtcd(options: EtcdOptions = {}): Promise<Etcd> {
  const { members = 1, args = [], version } = options;
  const command = await program("etcd", version);
  for (let draw = 1; ; draw++) {
    try {
      return await orClose(new Etcd(await plan({ command, args, members })), (etcd) =>
        etcd.start(),
      );
    } catch (error) {
      const taken = /address already in use/i.test((error as Error).message);
      if (!taken || draw === 10) throw error;
    }
  }
}

async function plan(what: {
  command: readonly string[];
  args: readonly string[];
  members: number;
}): Promise<EtcdPlan[]> {
  const { command, args, members } = what;
  const ports = await freePorts(2 * members);
  const places = Array.from({ length: members }, (_, index) => ({
    name: `m${index + 1}`,
    clientPort: ports[2 * index] ?? 0,
    peerPort: ports[2 * index + 1] ?? 0,
  }));
  const cluster = places.map(({ name, peerPort }) => `${name}=http://127.0.0.1:${peerPort}`);
  return places.map((place) => ({ ...place, command, args, cluster: cluster.join(",") }));
}

/** A running etcd with its members. */
export class Etcd implements AsyncDisposable {
  readonly members: readonly EtcdMember[];

  constructor(plans: readonly EtcdPlan[]) {
    this.members = plans.map((one) => new EtcdMember(one));
  }

  /** The URL for clients of each member. */
  get urls(): string[] {
    return this.members.map(({ url }) => url);
  }

  /** The first member, which is the only one by default. */
  get first(): EtcdMember {
    return this.members[0] as EtcdMember;
  }

  /** Starts all stopped members at the same time. */
  async start(): Promise<void> {
    const outcomes = await Promise.allSettled(this.members.map((member) => member.start()));
    for (const one of outcomes) if (one.status === "rejected") throw one.reason;
  }

  /** The leader that every running member agrees on. */
  leader(): Promise<EtcdMember> {
    return eventually(
      async () => {
        const running = this.members.filter((member) => member.running);
        const views = await Promise.all(running.map(viewOf));
        const [leader] = new Set(views.map((view) => view.leader));
        const agreed = views.every((view) => view.leader === leader);
        const member = running.find((_, index) => views[index]?.id === leader);
        if (member !== undefined && agreed) return member;
        throw new TestkitError(
          "GAVE_UP",
          `the members do not agree on a leader: ${JSON.stringify(views)}`,
        );
      },
      { withinMs: 20_000 },
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.members.map((member) => member.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function viewOf(member: EtcdMember): Promise<{ id: unknown; leader: unknown }> {
  const { header, leader } = await member.call("/v3/maintenance/status");
  return { id: (header as { member_id: string }).member_id, leader };
}
