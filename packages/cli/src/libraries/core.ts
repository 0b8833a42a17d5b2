// biome-ignore lint/performance/noReExportAll: `ropeway/core` is `@ropeway/core`, whatever that exports
export * from "@ropeway/core";
