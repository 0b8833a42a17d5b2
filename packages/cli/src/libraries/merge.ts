// biome-ignore lint/performance/noReExportAll: `ropeway/merge` is `@ropeway/merge`, whatever that exports
export * from "@ropeway/merge";
