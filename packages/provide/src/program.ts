// The programs that can be provided. A program (what a caller requests) is an executable of a product (what is
// packaged and versioned): redis-cli and redis-server are two programs of Redis, and either may also
// come from Valkey. The product listed first is preferred if none is installed yet.

/** Programs that {@link provide} knows. The redis programs may be Valkey's. */
export type ProgramName = "redis-server" | "redis-cli" | "redis-benchmark" | "etcd" | "chromium";

/** A product of which programs can be provided. */
export type ProductName = "redis" | "valkey" | "etcd" | "chromium";

export interface Product {
  readonly title: string;
  /** Matches the version output of its executables. */
  readonly signature: RegExp;
  /** The oldest version that Ropeway works with. */
  readonly minimum: string;
  /** Debian packages that hold the product's executables. */
  readonly packages: readonly string[];
  /** Dependencies of these packages that are not needed here. */
  readonly unneeded: RegExp;
  /** The folder of the executables in the packages. */
  readonly home: string;
  /**
   * The dynamic loader that starts them. The packaged one makes a bundle independent of the machine's
   * C library. A browser starts itself again through /proc/self/exe, which would be that loader, so
   * it uses the machine's own, with the packaged libraries except the C library.
   */
  readonly loader: "packaged" | "system";
  /** Environment variables that the executables need, as shell words; `$here` is the bundle. */
  readonly environment: Readonly<Record<string, string>>;
  /** The arguments of `brew install`. */
  readonly brew: readonly string[];
}

export interface Program {
  readonly name: ProgramName;
  /** The environment variable that names an executable to use instead of searching. */
  readonly variable: string;
  /** Names of the executable, by product, best first. */
  readonly executables: readonly { readonly product: ProductName; readonly file: string }[];
}

/** Packages with names like libraries that only install or configure a system. */
const SETUP = /perl|^libpam-|-(?:bin|common)$/;

export const PRODUCTS: Readonly<Record<ProductName, Product>> = {
  redis: {
    title: "Redis",
    signature: /\bredis\b/i,
    minimum: "6.2",
    packages: ["redis-server", "redis-tools"],
    unneeded: SETUP,
    home: "usr/bin",
    loader: "packaged",
    environment: {},
    brew: ["redis"],
  },
  valkey: {
    title: "Valkey",
    signature: /\bvalkey\b|^server v=/i,
    minimum: "7.2",
    packages: ["valkey-server", "valkey-tools"],
    unneeded: SETUP,
    home: "usr/bin",
    loader: "packaged",
    environment: {},
    brew: ["valkey"],
  },
  etcd: {
    title: "etcd",
    signature: /\betcd\b/i,
    minimum: "3.4",
    packages: ["etcd-server"],
    unneeded: SETUP,
    home: "usr/bin",
    loader: "packaged",
    // Before 3.5, etcd refuses to run on arm64 unless this variable is set.
    environment: process.arch === "arm64" ? { ETCD_UNSUPPORTED_ARCH: "arm64" } : {},
    brew: ["etcd"],
  },
  chromium: {
    title: "Chromium",
    signature: /\bchrom(?:e|ium)\b/i,
    minimum: "100.0",
    packages: ["chromium", "chromium-common", "fonts-dejavu-core"],
    unneeded: new RegExp(`${SETUP.source}|^lib(?:c6|gl1-mesa|llvm|z3|systemd-shared|gtk-3-common)`),
    home: "usr/lib/chromium",
    loader: "system",
    environment: { FONTCONFIG_FILE: "$here/fonts.conf" },
    brew: ["--cask", "chromium"],
  },
};

const EXECUTABLES: Readonly<Record<ProgramName, Program["executables"]>> = {
  "redis-server": [
    { product: "redis", file: "redis-server" },
    { product: "valkey", file: "valkey-server" },
  ],
  "redis-cli": [
    { product: "redis", file: "redis-cli" },
    { product: "valkey", file: "valkey-cli" },
  ],
  "redis-benchmark": [
    { product: "redis", file: "redis-benchmark" },
    { product: "valkey", file: "valkey-benchmark" },
  ],
  etcd: [{ product: "etcd", file: "etcd" }],
  chromium: [
    { product: "chromium", file: "chromium" },
    { product: "chromium", file: "chromium-browser" },
    { product: "chromium", file: "google-chrome-stable" },
    { product: "chromium", file: "google-chrome" },
  ],
};

/** The description of a program. */
export function programOf(name: ProgramName): Program {
  const executables = EXECUTABLES[name];
  if (executables === undefined) {
    const known = Object.keys(EXECUTABLES).join(", ");
    throw new TypeError(`provide: unknown program ${JSON.stringify(name)} (known: ${known})`);
  }
  return {
    name,
    variable: `ROPEWAY_${name.toUpperCase().replaceAll("-", "_")}`,
    executables,
  };
}

/** The products that have the program, best first. */
export function productsOf(program: Program): readonly ProductName[] {
  return [...new Set(program.executables.map(({ product }) => product))];
}

/** Every executable name of a product. */
export function executablesOf(product: ProductName): readonly string[] {
  return Object.values(EXECUTABLES)
    .flat()
    .filter((executable) => executable.product === product)
    .map(({ file }) => file);
}
