// biome-ignore lint/performance/noReExportAll: `ropeway/kit/semaphore` is `@ropeway/kit/semaphore`, whatever that exports
export * from "@ropeway/kit/semaphore";
