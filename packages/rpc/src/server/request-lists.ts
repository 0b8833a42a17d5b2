/**
 * The lists that a worker pops, in the order of one pop: its session lists, then the request lists,
 * starting one list further each time so that none starves. A key that is not a list is left out for a while,
 * so that it does not stop the others.
 */
import { type Redis, WrongKeyTypeError } from "@ropeway/core";
import type { CallStore } from "../store/call-store.ts";
import type { Dialect } from "../wire/dialect.ts";
import type { ServedService, Source } from "./served-service.ts";

const BLOCK_MS = 5_000;
const WRONG_TYPE_PAUSE_MS = 1_000;

/** The request lists of some services: one each, or one per method. */
export function requestSources(dialect: Dialect, services: readonly ServedService[]): Source[] {
  return services.flatMap((service) => {
    const methods = dialect.listPerMethod ? [...service.methods.keys()].sort() : [undefined];
    return methods.map((method) => ({
      list: dialect.keys.request(service.name, method ?? ""),
      service,
      method,
      group: undefined,
      durable: undefined,
    }));
  });
}

/** The session lists of one node of a group; none in a wire without sessions. */
export function sessionSources(
  dialect: Dialect,
  services: readonly ServedService[],
  member: { readonly group: string; readonly node: string },
): Source[] {
  const { sessions } = dialect;
  if (sessions === undefined) return [];
  const { group, node } = member;
  return services.map((service) => ({
    list: sessions.sessionRequest(`${group}:${node}`, service.name),
    service,
    method: undefined,
    group,
    durable: undefined,
  }));
}

/** The lists of one worker. */
export class RequestLists {
  readonly #redis: Redis;
  readonly #store: CallStore;
  readonly #sources = new Map<string, Source>();
  #sessions: readonly string[] = [];
  #shared: readonly string[] = [];
  #rotation = 0;

  constructor(redis: Redis, store: CallStore, sources: readonly Source[]) {
    this.#redis = redis;
    this.#store = store;
    for (const source of sources) this.#sources.set(source.list, source);
    this.#use(new Set());
  }

  /** How long a pop may block. It is short while a list is left out. */
  get blockMs(): number {
    return this.#sessions.length + this.#shared.length < this.#sources.size
      ? WRONG_TYPE_PAUSE_MS
      : BLOCK_MS;
  }

  get(list: string): Source | undefined {
    return this.#sources.get(list);
  }

  /** The lists for the next pop. */
  next(): string[] {
    const shared = this.#shared;
    const start = shared.length === 0 ? 0 : this.#rotation++ % shared.length;
    return [...this.#sessions, ...shared.slice(start), ...shared.slice(0, start)];
  }

  /** Finds the keys that made a pop fail, and leaves them out for a second. */
  async avoidWrongTypes(cause: unknown): Promise<void> {
    const wrong = await this.#store.wrongTypes([...this.#sources.keys()]);
    for (const list of wrong) {
      this.#redis.logger.error({ err: new WrongKeyTypeError(list, cause) }, "a list is not served");
    }
    this.#use(new Set(wrong));
    setTimeout(() => this.#use(new Set()), WRONG_TYPE_PAUSE_MS).unref();
  }

  #use(wrong: ReadonlySet<string>): void {
    const usable = [...this.#sources.values()].filter(({ list }) => !wrong.has(list));
    this.#sessions = usable.filter(({ group }) => group !== undefined).map(({ list }) => list);
    this.#shared = usable.filter(({ group }) => group === undefined).map(({ list }) => list);
  }
}
