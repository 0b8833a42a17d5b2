/** The merge queue of `up` and `portal`: a dispatcher, and the v3 interface in front of it. */
import { HttpDispatcher, MergeQueue } from "@ropeway/merge";
import { AddressGuard, signingKey } from "@ropeway/merge/internal";
import { QueueService } from "@ropeway/portal";
import { listenOn } from "../listen.ts";
import type { PartPlan } from "../portal/parts.ts";
import { namingSettings } from "../refused-option.ts";
import { secretOf } from "../secret.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";
import { queueTargets } from "./targets.ts";

/** A queue that takes pushes and delivers them. */
export interface StartedQueue extends AsyncDisposable {
  readonly url: string;
  /** What deliveries may reach besides public addresses. */
  readonly targets: readonly string[];
}

const OPTIONS: Readonly<Record<string, SettingKey>> = {
  targets: "queue.targets",
  signingKeys: "queue.signingKeys",
};

/** Refuses what the queue would refuse, before anything is started or downloaded. */
export function checkQueueSettings(settings: LoadedSettings): Promise<void> {
  return namingSettings(settings, OPTIONS, async () => {
    new AddressGuard(settings.values["queue.targets"]);
    for (const key of signingKeysOf(settings)) signingKey(key);
  });
}

/** Starts to deliver what is due, then to take pushes; undefined where queue.serve says no. */
export async function startQueue(plan: PartPlan): Promise<StartedQueue | undefined> {
  const { redis, settings, logger, atHome } = plan;
  const { values } = settings;
  if (!(values["queue.serve"] ?? atHome)) return undefined;
  const targets = queueTargets(plan);
  const queue = new MergeQueue(redis, { prefix: `${values.prefix}:{merge}` });
  const signingKeys = signingKeysOf(settings);
  return namingSettings(settings, OPTIONS, async () => {
    const dispatcher = await HttpDispatcher.start(
      queue,
      { targets, signingKeys },
      { concurrency: values["queue.concurrency"], perOrigin: values["queue.perOrigin"] },
    );
    const closeAll = async () => {
      await dispatcher.close();
      await queue.close();
    };
    try {
      const host = values["queue.host"];
      const token = secretOf(settings, "queue.token", "queue.tokenFile");
      const tokens = token === undefined ? [] : [token];
      const service = await listenOn({ ...plan, key: "queue.port" }, (port) =>
        QueueService.start(queue, {
          host,
          port,
          hosts: values["portal.hosts"],
          tokens,
          targets,
          logger,
        }),
      );
      const close = () => service.close().then(closeAll); // no new pushes while the last are sent
      return { url: service.url, targets, [Symbol.asyncDispose]: close };
    } catch (error) {
      await closeAll();
      throw error;
    }
  });
}

function signingKeysOf(settings: LoadedSettings): string[] {
  const keys = secretOf(settings, "queue.signingKeys", "queue.signingKeysFile") ?? "";
  return keys.split(/[\s,]+/).filter((key) => key !== "");
}
