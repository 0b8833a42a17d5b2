// biome-ignore lint/performance/noReExportAll: `ropeway/sync` is `@ropeway/sync`, whatever that exports
export * from "@ropeway/sync";
