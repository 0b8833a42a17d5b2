// biome-ignore lint/performance/noReExportAll: `ropeway/kit/autocomplete` is `@ropeway/kit/autocomplete`, whatever that exports
export * from "@ropeway/kit/autocomplete";
