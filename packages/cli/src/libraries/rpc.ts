// biome-ignore lint/performance/noReExportAll: `ropeway/rpc` is `@ropeway/rpc`, whatever that exports
export * from "@ropeway/rpc";
