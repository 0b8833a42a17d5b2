/** The merge queue of `up` and `portal`: a dispatcher, and the v3 interface in front of it. */
import { AddressGuard, HttpDispatcher, MergeQueue, type MergeQueueOptions } from "@ropeway/merge";
import { signingKey } from "@ropeway/merge/internal";
import { MergeServer } from "@ropeway/portal";
import { listenOn } from "../listen.ts";
import type { PartPlan } from "../portal/parts.ts";
import { namingSettings } from "../refused-option.ts";
import { secretOf } from "../secret.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey, Settings } from "../settings/table.ts";
import { allowedAddresses } from "./allowed.ts";

/** A merge queue that accepts pushes and delivers them. */
export interface StartedMerge extends AsyncDisposable {
  readonly url: string;
  /** Addresses that deliveries may reach besides public ones. */
  readonly allow: readonly string[];
}

const OPTIONS: Readonly<Record<string, SettingKey>> = {
  allow: "merge.allow",
  signingKeys: "merge.signingKeys",
  timeoutMs: "merge.timeoutMs",
};

/** A lease outlasts its attempt by this much. */
const LEASE_MARGIN_MS = 15_000;

/** The options of the queue itself, which every part of the program must agree on. */
export function mergeQueueOptions(values: Settings): MergeQueueOptions {
  return {
    prefix: `${values.prefix}:{merge}`,
    maxItems: values["merge.maxItems"],
    maxBytes: values["merge.maxBytes"],
  };
}

/** Refuses what the queue would refuse, before anything is started or downloaded. */
export function checkMergeSettings(settings: LoadedSettings): Promise<void> {
  return namingSettings(settings, OPTIONS, async () => {
    new AddressGuard(settings.values["merge.allow"]);
    for (const key of signingKeysOf(settings)) signingKey(key);
  });
}

/** Starts to deliver due batches, then to accept pushes; undefined where merge.serve says no. */
export async function startMerge(plan: PartPlan): Promise<StartedMerge | undefined> {
  const { redis, settings, logger, atHome } = plan;
  const { values } = settings;
  if (!(values["merge.serve"] ?? atHome)) return undefined;
  const allow = allowedAddresses(plan);
  const queue = new MergeQueue(redis, mergeQueueOptions(values));
  return namingSettings(settings, OPTIONS, async () => {
    const dispatcher = new HttpDispatcher(queue, {
      ...dispatcherOptions(values),
      allow,
      signingKeys: signingKeysOf(settings),
    });
    dispatcher.on("error", (error) => logger.warn({ err: error }, "the dispatcher met an error"));
    await dispatcher.start();
    const closeAll = async () => {
      await dispatcher.close();
      await queue.close();
    };
    try {
      const token = secretOf(settings, "merge.token", "merge.tokenFile");
      const server = await listenOn({ ...plan, key: "merge.port" }, (port) =>
        new MergeServer(queue, {
          ...{ host: values["merge.host"], port, allow, logger },
          hosts: values["portal.hosts"],
          maxBodyBytes: values["merge.maxBodyBytes"],
          tokens: token === undefined ? [] : [token],
        }).start(),
      );
      const close = () => server.close().then(closeAll); // no new pushes while the last are sent
      return { url: server.url, allow, [Symbol.asyncDispose]: close };
    } catch (error) {
      await closeAll();
      throw error;
    }
  });
}

function dispatcherOptions(values: Settings) {
  const timeoutMs = values["merge.timeoutMs"];
  return {
    timeoutMs,
    leaseMs: Math.max(30_000, timeoutMs + LEASE_MARGIN_MS),
    concurrency: values["merge.concurrency"],
    perOrigin: values["merge.perOrigin"],
    httpsOnly: values["merge.httpsOnly"],
    attempts: values["merge.attempts"],
    backoff: { delayMs: values["merge.backoffMs"], maxMs: values["merge.backoffMaxMs"] },
    letterAgeMs: values["merge.letterAgeMs"],
    maxLetters: values["merge.maxLetters"],
  };
}

function signingKeysOf(settings: LoadedSettings): string[] {
  const keys = secretOf(settings, "merge.signingKeys", "merge.signingKeysFile") ?? "";
  return keys.split(/[\s,]+/).filter((key) => key !== "");
}
