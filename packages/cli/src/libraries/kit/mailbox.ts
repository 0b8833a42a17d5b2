// biome-ignore lint/performance/noReExportAll: `ropeway/kit/mailbox` is `@ropeway/kit/mailbox`, whatever that exports
export * from "@ropeway/kit/mailbox";
