/** The store on etcd 3.4 or newer. Only this folder talks to etcd. */
import type { Logger } from "@ropeway/core";
import { StoreRefusedError, StoreUnsupportedError } from "../../errors.ts";
import {
  checkKey,
  checkPrefixPath,
  checkTransaction,
  checkValue,
  endOfPrefix,
  limitOf,
} from "../limits.ts";
import { onlyReads } from "../reads.ts";
import type {
  Compare,
  Entry,
  Grant,
  Operation,
  RangeOptions,
  RangeResult,
  Store,
  StoreStatus,
  Transaction,
  TransactionResult,
  WatchEvent,
  WatchOptions,
} from "../store.ts";
import type { StoreTls } from "./channel.ts";
import { entryOf, isUsable } from "./entry.ts";
import { Status } from "./grpc-error.ts";
import {
  CompactionRequest,
  CompactionResponse,
  DeleteRangeRequest,
  DeleteRangeResponse,
  LeaseGrantRequest,
  LeaseGrantResponse,
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  LeaseRevokeRequest,
  LeaseRevokeResponse,
  PutRequest,
  PutResponse,
  RangeRequest,
  RangeResponse,
  type RequestOp,
  type Compare as RpcCompare,
  StatusRequest,
  StatusResponse,
  TxnRequest,
  TxnResponse,
} from "./messages.ts";
import type { Message, Sparse } from "./protobuf.ts";
import { type Method, Transport } from "./transport.ts";
import { watchEtcd } from "./watch.ts";

const KV = "/etcdserverpb.KV";
const LEASE = "/etcdserverpb.Lease";

const range: Method<RangeRequest, RangeResponse> = {
  path: `${KV}/Range`,
  request: RangeRequest,
  response: RangeResponse,
  repeatable: true,
};
const put = write(`${KV}/Put`, PutRequest, PutResponse);
const remove = write(`${KV}/DeleteRange`, DeleteRangeRequest, DeleteRangeResponse);
const txn = write(`${KV}/Txn`, TxnRequest, TxnResponse);
const readTxn = { ...txn, repeatable: true };
const compact = write(`${KV}/Compact`, CompactionRequest, CompactionResponse);
const grant = write(`${LEASE}/LeaseGrant`, LeaseGrantRequest, LeaseGrantResponse);
// Repeating is harmless: an ended lease stays ended, and a renewal only sets it to its full time.
const revoke = {
  ...write(`${LEASE}/LeaseRevoke`, LeaseRevokeRequest, LeaseRevokeResponse),
  repeatable: true,
};
const keepAlive = {
  ...write(`${LEASE}/LeaseKeepAlive`, LeaseKeepAliveRequest, LeaseKeepAliveResponse),
  repeatable: true,
  // While a leader hangs, so does a follower that has sent it the renewal, and then the leader itself when it is asked
  // next. The third member must have its turn before a lease of the default length is given up.
  tryMs: 1_500,
};
const status: Method<StatusRequest, StatusResponse> = {
  path: "/etcdserverpb.Maintenance/Status",
  request: StatusRequest,
  response: StatusResponse,
  repeatable: true,
};

const TARGET = { version: 0, create: 1, mod: 2, value: 3 } as const;
const RESULT = { "=": 0, ">": 1, "<": 2, "!=": 3 } as const;

/** How to reach an etcd. */
export interface EtcdStoreOptions {
  /** Such as http://10.0.0.1:2379; at least one. */
  readonly endpoints: readonly string[];
  readonly tls?: StoreTls | undefined;
  readonly user?: { readonly name: string; readonly password: string } | undefined;
  readonly tryMs?: number;
  readonly timeoutMs?: number;
  readonly logger: Logger;
}

/** Connects, and refuses an etcd that is too old. */
export async function openEtcdStore(options: EtcdStoreOptions): Promise<Store> {
  const { tryMs = 2_000, timeoutMs = 8_000, ...rest } = options;
  const store = new EtcdStore(new Transport({ tryMs, timeoutMs, ...rest }), options.logger);
  try {
    const { version } = await store.status();
    const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
    if (major < 3 || (major === 3 && minor < 4)) {
      throw new StoreUnsupportedError(store.where, `it is etcd ${version}; 3.4 is needed`);
    }
    if (minor < 5 || (minor === 5 && patch < 6)) {
      options.logger.warn(
        { version },
        "this etcd has known defects; 3.5.6 or newer is recommended",
      );
    }
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

class EtcdStore implements Store {
  readonly kind = "etcd";
  readonly #transport: Transport;
  readonly #logger: Logger;
  readonly #closing = new AbortController();

  constructor(transport: Transport, logger: Logger) {
    this.#transport = transport;
    this.#logger = logger;
  }

  get where(): string {
    return this.#transport.where;
  }

  async get(key: string): Promise<Entry | undefined> {
    checkKey(key);
    const { kvs } = await this.#transport.call(range, { key });
    return kvs[0] && entryOf(kvs[0]);
  }

  async put(key: string, value: string, lease?: string): Promise<number> {
    checkKey(key);
    checkValue(value);
    const request = { key, value, lease: leaseOf(lease) };
    return revisionOf(await this.#transport.call(put, request));
  }

  async delete(key: string): Promise<boolean> {
    checkKey(key);
    const { deleted } = await this.#transport.call(remove, { key });
    return deleted > 0n;
  }

  async range(prefix: string, options: RangeOptions = {}): Promise<RangeResult> {
    checkPrefixPath(prefix);
    const { after } = options;
    const rangeEnd = endOfPrefix(prefix);
    const limit = BigInt(limitOf(options));
    let revision: number | undefined;
    for (let key = after === undefined || after < prefix ? prefix : behind(after); ; ) {
      const response = await this.#transport.call(range, { key, rangeEnd, limit });
      revision ??= revisionOf(response);
      const entries = response.kvs.filter(isUsable).map(entryOf);
      const last = response.kvs.at(-1);
      // A page with only keys of other programs is skipped: the next one may have ours.
      if (entries.length > 0 || !response.more || last === undefined) {
        return { entries, revision, more: response.more };
      }
      key = behind(last.key);
    }
  }

  async txn(transaction: Transaction): Promise<TransactionResult> {
    checkTransaction(transaction);
    const { if: compares = [], do: operations, else: otherwise = [] } = transaction;
    const method = onlyReads(transaction) ? readTxn : txn;
    const response = await this.#transport.call(method, {
      compare: compares.map(compareOf),
      success: operations.map(operationOf),
      failure: otherwise.map(operationOf),
    });
    const found = response.responses.flatMap(({ responseRange }) =>
      responseRange === undefined ? [] : [responseRange.kvs[0] && entryOf(responseRange.kvs[0])],
    );
    return { succeeded: response.succeeded, revision: revisionOf(response), found };
  }

  async grant(ttlMs: number): Promise<Grant> {
    const ttl = BigInt(Math.max(1, Math.ceil(ttlMs / 1_000)));
    const response = await this.#transport.call(grant, { ttl });
    return { id: String(response.id), ttlMs: Number(response.ttl) * 1_000 };
  }

  async keepAlive(lease: string): Promise<number> {
    const { ttl } = await this.#transport.call(keepAlive, { id: BigInt(lease) });
    return Math.max(0, Number(ttl) * 1_000);
  }

  async revoke(lease: string): Promise<void> {
    try {
      await this.#transport.call(revoke, { id: BigInt(lease) });
    } catch (error) {
      const gone = error instanceof StoreRefusedError && error.details.status === Status.notFound;
      if (!gone) throw error;
    }
  }

  watch(options: WatchOptions): AsyncIterable<readonly WatchEvent[]> {
    checkKey(options.prefix);
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    const [transport, logger, key] = [this.#transport, this.#logger, options.prefix];
    const revision = async () => revisionOf(await transport.call(range, { key }));
    return watchEtcd({ ...options, signal, transport, logger, revision });
  }

  async status(): Promise<StoreStatus> {
    const response = await this.#transport.call(status, {});
    return { version: response.version, revision: revisionOf(response) };
  }

  /** Forgets history before a revision; for tests, operators use etcd's own auto-compaction. */
  async compact(revision: number): Promise<void> {
    await this.#transport.call(compact, { revision: BigInt(revision), physical: true });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#transport.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function write<Q, R>(path: string, request: Message<Q>, response: Message<R>): Method<Q, R> {
  return { path, request, response, repeatable: false };
}

/** The first key after another one: that key with a NUL behind it. */
function behind(key: Buffer | string): Buffer | string {
  return typeof key === "string" ? `${key}\0` : Buffer.concat([key, Buffer.of(0)]);
}

function revisionOf({ header }: { header: { revision: bigint } | undefined }): number {
  return Number(header?.revision ?? 0n);
}

function leaseOf(lease: string | undefined): bigint {
  return lease === undefined ? 0n : BigInt(lease);
}

function compareOf(compare: Compare): Sparse<RpcCompare> {
  const { key, target } = compare;
  const head = { key, target: TARGET[target], result: RESULT[compare.is] };
  if (compare.target === "value") return { ...head, value: compare.than };
  const than = BigInt(compare.than);
  if (target === "version") return { ...head, version: than };
  return target === "create" ? { ...head, createRevision: than } : { ...head, modRevision: than };
}

function operationOf(operation: Operation): Sparse<RequestOp> {
  const { key } = operation;
  switch (operation.op) {
    case "get":
      return { requestRange: { key } };
    case "delete":
      return { requestDeleteRange: { key } };
    case "put":
      return { requestPut: { key, value: operation.value, lease: leaseOf(operation.lease) } };
  }
}
