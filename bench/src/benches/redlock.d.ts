/** What we use of redlock, whose package does not export its own types to ESM. */
declare module "redlock" {
  // biome-ignore lint/style/noDefaultExport: it is how redlock exports it
  export default class Redlock {
    constructor(clients: readonly object[], settings?: { readonly retryCount?: number });
    acquire(resources: string[], ttlMs: number): Promise<{ release(): Promise<object> }>;
  }
}
