// biome-ignore lint/performance/noReExportAll: `ropeway/jobs` is `@ropeway/jobs`, whatever that exports
export * from "@ropeway/jobs";
