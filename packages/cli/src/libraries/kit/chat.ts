// biome-ignore lint/performance/noReExportAll: `ropeway/kit/chat` is `@ropeway/kit/chat`, whatever that exports
export * from "@ropeway/kit/chat";
