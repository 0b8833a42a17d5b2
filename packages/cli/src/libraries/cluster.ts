/** `ropeway/cluster`: the same as `@ropeway/cluster`. */
// biome-ignore lint/performance/noReExportAll: this module is nothing but that package
export * from "@ropeway/cluster";
