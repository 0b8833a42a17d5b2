/** The part of redlock that we use. The package does not export its types to ESM. */
declare module "redlock" {
  // biome-ignore lint/style/noDefaultExport: it is how redlock exports it
  export default class Redlock {
    constructor(clients: readonly object[], settings?: { readonly retryCount?: number });
    acquire(resources: string[], ttlMs: number): Promise<{ release(): Promise<object> }>;
  }
}
