/** The routes of a client. Only the most recently used ones are kept, so names from outside cannot fill the memory. */
import { InvalidNameError } from "@ropeway/core";
import { Recent } from "../recent.ts";
import type { Target } from "../wire/dialect.ts";
import { Route, type RouteHost } from "./route.ts";

const ROUTES_AT_MOST = 1_000;

/** Finds routes by their name. */
export class Router {
  readonly #host: RouteHost;
  readonly #routes = new Recent<string, Route>(ROUTES_AT_MOST);

  constructor(host: RouteHost) {
    this.#host = host;
  }

  /** The routes that were used recently. */
  get routes(): Iterable<Route> {
    return this.#routes.values();
  }

  /** The route of "service.method". Throws InvalidNameError. */
  route(target: string): Route {
    return this.#routes.obtain(
      target,
      () => new Route(this.#host, this.#host.dialect.target(target)),
    );
  }

  /** The route of a service's method. */
  routeOf({ service, method }: Target): Route {
    const { dialect } = this.#host;
    if (typeof method !== "string" || method === "") {
      throw new InvalidNameError("the method", method, "a string that is not empty");
    }
    const target = { service: dialect.listPerMethod ? "" : service, method };
    const name = target.service === "" ? method : `${service}.${method}`;
    return this.#routes.obtain(name, () => new Route(this.#host, target));
  }
}
