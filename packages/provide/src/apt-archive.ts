// The packages that this machine's apt sources offer, read as any user and without side effects: apt-get
// runs with its own state, cache and log in a private folder, and with an empty list of installed
// packages. The system provides the sources with their keys, proxies and
// pins, in any format. Nothing in the system is changed, even when running as root.
//
// With an empty list of installed packages, `install --simulate` names everything that a package needs,
// down to the C library. So a bundle can run on its own.
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StepFailedError } from "./errors.ts";
import type { ResolvedProvideOptions } from "./options.ts";
import { isExecutable } from "./search-path.ts";
import { mustRun, runTool, type ToolOptions, type ToolResult } from "./tool.ts";

const APT_GET = "/usr/bin/apt-get";
const DPKG = "/usr/bin/dpkg";
const DPKG_DEB = "/usr/bin/dpkg-deb";
/** The folders of the tools, whatever the caller's PATH contains. */
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface Package {
  readonly name: string;
  readonly version: string;
}

/** Whether this machine has apt. */
export async function hasApt(): Promise<boolean> {
  return (await Promise.all([APT_GET, DPKG, DPKG_DEB].map(isExecutable))).every(Boolean);
}

export class AptArchive {
  readonly #folder: string;
  readonly #options: ResolvedProvideOptions;
  /** The error of the last update. It is reported only if a package is then not found. */
  #complaint: string | undefined;

  private constructor(folder: string, resolved: ResolvedProvideOptions) {
    this.#folder = folder;
    this.#options = resolved;
  }

  /** Reads the package lists of the system's sources into `folder`. */
  static async open(folder: string, resolved: ResolvedProvideOptions): Promise<AptArchive> {
    const archive = new AptArchive(folder, resolved);
    await mkdir(join(folder, "state/lists/partial"), { recursive: true });
    await mkdir(join(folder, "cache/archives/partial"), { recursive: true });
    await mkdir(join(folder, "log"));
    await writeFile(join(folder, "status"), "");
    const native = (
      await mustRun([DPKG, "--print-architecture"], archive.#toolOptions(folder))
    ).trim();
    await writeFile(join(folder, "apt.conf"), configuration(folder, native));
    resolved.note("Reading the package lists of this machine's apt sources");
    // One unreachable source of many is an error for apt but not here: it is kept as a reason.
    const { stderr } = await archive.#aptGet(["update", "-q"]);
    archive.#complaint = complaintOf(stderr);
    return archive;
  }

  /** The packages and everything they need, with the versions that would be installed. */
  async closure(names: readonly string[]): Promise<readonly Package[]> {
    const { code, stdout, stderr } = await this.#aptGet(["install", "--simulate", "-y", ...names]);
    if (code !== 0) {
      const found = complaintOf(stderr) ?? `apt-get install --simulate ended with ${code}`;
      throw new StepFailedError(this.#complaint ?? found);
    }
    return [...stdout.matchAll(/^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) /gm)].map((match) => ({
      name: match[1] as string,
      version: match[2] as string,
    }));
  }

  /** Downloads packages, checked against the signed lists, and unpacks them into `root`. */
  async unpack(packages: readonly Package[], root: string): Promise<void> {
    const download = join(this.#folder, "download");
    await mkdir(download);
    const wanted = packages.map(({ name, version }) => `${name}=${version}`);
    const { code, stderr } = await this.#aptGet(["download", "-q", ...wanted], download);
    if (code !== 0) {
      throw new StepFailedError(complaintOf(stderr) ?? `apt-get download ended with ${code}`);
    }
    await mkdir(root);
    for (const file of await readdir(download)) {
      await mustRun([DPKG_DEB, "-x", join(download, file), root], this.#toolOptions(download));
    }
    await rm(download, { recursive: true });
  }

  #aptGet(args: readonly string[], cwd: string = this.#folder): Promise<ToolResult> {
    const command = [APT_GET, "-c", join(this.#folder, "apt.conf"), ...args] as const;
    return runTool(command, this.#toolOptions(cwd));
  }

  #toolOptions(cwd: string): ToolOptions {
    const { env, signal } = this.#options;
    return { signal, cwd, env: { ...env, PATH: SYSTEM_PATH, LC_ALL: "C" } };
  }
}

/** Read after the system's own configuration, so these settings win. */
function configuration(folder: string, architecture: string): string {
  const quoted = (path: string) => `"${join(folder, path)}"`;
  return `
// Hooks of the system's apt must not run here. Other architectures and indexes would only
// take time.
#clear APT::Update;
#clear DPkg;
#clear APT::Architectures;
#clear Acquire::IndexTargets;
APT::Architecture "${architecture}";
APT::Architectures { "${architecture}"; };
Acquire::IndexTargets::deb::Packages {
  MetaKey "$(COMPONENT)/binary-$(ARCHITECTURE)/Packages";
  flatMetaKey "Packages";
  ShortDescription "Packages";
  Description "$(RELEASE)/$(COMPONENT) $(ARCHITECTURE) Packages";
  flatDescription "$(RELEASE) Packages";
};
Acquire::Languages "none";

Dir::State ${quoted("state")};
Dir::State::status ${quoted("status")};
Dir::Cache ${quoted("cache")};
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Log ${quoted("log")};

APT::Sandbox::User "";
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Retries "1";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
`;
}

/** The first error of apt, as a clause without prefix and full stop. */
function complaintOf(stderr: string): string | undefined {
  const fetching = /^[EW]: Failed to fetch (\S+)\s+(.+)$/m.exec(stderr);
  const clause = fetching
    ? `could not fetch ${fetching[1]}: ${fetching[2]}`
    : /^E: (.+)$/m.exec(stderr)?.[1];
  return clause?.replace(/\.(?=\s|$)/g, "").trim();
}
