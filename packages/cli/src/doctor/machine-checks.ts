/** The checks of this machine. */
import { constants } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";
import { isFree } from "../up/free-port.ts";
import { homeAt } from "../up/home.ts";
import { holderOf } from "../up/home-claim.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const NODE_MINIMUM = [20, 19] as const;
const SMALL_DISK_BYTES = 500 * 1_048_576;

export async function checkMachine(settings: LoadedSettings): Promise<Finding[]> {
  const { values } = settings;
  return [
    checkNode(process.versions.node),
    await checkHome(values.home),
    await checkPort("portal.port", settings),
    await checkPort("merge.port", settings),
  ];
}

/** Whether this Node is one we run on. */
export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [wantedMajor, wantedMinor] = NODE_MINIMUM;
  return major > wantedMajor || (major === wantedMajor && minor >= wantedMinor)
    ? ok("node", version)
    : fail("node", version, `install Node ${NODE_MINIMUM.join(".")} or newer`);
}

async function checkHome(home: string): Promise<Finding> {
  const folder = await nearestExisting(home);
  try {
    await access(folder, constants.W_OK);
  } catch {
    return fail("home", `${home} cannot be written to`, "choose another one with ROPEWAY_HOME");
  }
  const { bavail, bsize } = await statfs(folder);
  const free = `${home}, ${((bavail * bsize) / 1_073_741_824).toFixed(1)} GiB free`;
  return bavail * bsize < SMALL_DISK_BYTES
    ? warn("home", free, "make room: a Redis with a full disk refuses writes")
    : ok("home", free);
}

async function nearestExisting(path: string): Promise<string> {
  for (let folder = path; ; folder = dirname(folder)) {
    const there = await access(folder).then(
      () => true,
      () => false,
    );
    if (there || folder === dirname(folder)) return folder;
  }
}

async function checkPort(
  key: SettingKey & `${string}.port`,
  settings: LoadedSettings,
): Promise<Finding> {
  const { values, origins } = settings;
  const port = values[key];
  if (port === 0) return ok(key, "any free port");
  const host = values[key === "merge.port" ? "merge.host" : "portal.host"];
  if (await isFree(host, port)) return ok(key, `${port} is free`);
  const holder = await holderOf(homeAt(values.home));
  const ours = [holder?.url, holder?.mergeUrl].some((url) => url?.endsWith(`:${port}`));
  if (ours) return ok(key, `${port} is used by this installation (pid ${holder?.pid})`);
  const found = `${port} is in use by another program`;
  const advice = `free it, or change ${key} (from ${origins[key].where})`;
  return origins[key].source === "default" ? warn(key, found, advice) : fail(key, found, advice);
}
