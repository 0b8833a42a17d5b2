// biome-ignore lint/performance/noReExportAll: `ropeway/kit/lock` is `@ropeway/kit/lock`, whatever that exports
export * from "@ropeway/kit/lock";
