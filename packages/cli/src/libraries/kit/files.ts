// biome-ignore lint/performance/noReExportAll: `ropeway/kit/files` is `@ropeway/kit/files`, whatever that exports
export * from "@ropeway/kit/files";
