/** Puts a portal together: its objects and how they are connected. */
import { openRedisStore } from "@ropeway/cluster";
import { InvalidOptionError, type Redis } from "@ropeway/core";
import { accessPart } from "./access/access-part.ts";
import { AuditLog } from "./access/audit-log.ts";
import { Auditor } from "./access/auditor.ts";
import { Authenticator } from "./access/authenticator.ts";
import { guard, isStillAllowed, lateGuard } from "./access/guard.ts";
import { PasswordHasher } from "./access/hasher.ts";
import { HostGuard } from "./access/host-guard.ts";
import { Policy } from "./access/permission.ts";
import { RightsFinder } from "./access/rights.ts";
import { Roles } from "./access/roles.ts";
import { sessionPart } from "./access/session-part.ts";
import { AccessStore } from "./access/store.ts";
import { Tokens } from "./access/tokens.ts";
import { healthPart } from "./health/health-part.ts";
import { Pulse } from "./health/pulse.ts";
import { Readiness } from "./health/readiness.ts";
import { homePart } from "./home/home-part.ts";
import type { AppPlan } from "./http/app.ts";
import { RouteTable } from "./http/route-table.ts";
import { PortalKeys } from "./keys.ts";
import { metricsPart } from "./metrics/metrics-part.ts";
import { PortalMetrics } from "./metrics/portal-metrics.ts";
import { openapiPart } from "./openapi/openapi-part.ts";
import type { ResolvedPortalOptions } from "./options.ts";
import type { PortalPart } from "./part.ts";
import { PortalClock } from "./portal-clock.ts";
import { EventStreams } from "./sse.ts";

/** Everything a portal consists of before it listens. */
export interface Assembly {
  readonly plan: AppPlan;
  readonly parts: readonly PortalPart[];
  readonly policy: Policy;
  readonly readiness: Readiness;
  readonly store: AccessStore;
  readonly hasher: PasswordHasher;
  readonly clock: PortalClock;
}

/** Makes the objects; nothing runs yet. */
export function assemble(redis: Redis, options: ResolvedPortalOptions): Assembly {
  const { sessionIdleMs, sessionMaxMs, bodyLimit, requestTimeoutMs, trustProxy, logger } = options;
  const shared = options.store ?? openRedisStore(redis, { prefix: `${options.prefix}:store` });
  const store = new AccessStore(redis, new PortalKeys(options.prefix), shared);
  const roles = new Roles(shared);
  const clock = new PortalClock(redis);
  const tokens = new Tokens(shared, clock);
  const auditLog = new AuditLog(shared, clock);
  const hasher = new PasswordHasher();
  const streams = new EventStreams({
    most: options.maxStreams,
    mostOfOne: options.maxStreamsPerAccount,
    isAllowed: (request) => isStillAllowed(request, { authenticator, rights }),
  });
  const metrics = new PortalMetrics({ redis, streams });
  const authenticator = new Authenticator({
    store,
    tokens,
    hasher,
    life: { idleMs: sessionIdleMs, maxMs: sessionMaxMs },
    onLogin: (outcome) => metrics.loginTried(outcome),
  });
  // Some parts describe all parts, so they read the list when a request comes.
  const parts: readonly PortalPart[] = [
    sessionPart({ authenticator, streams, rights: () => rights }),
    accessPart({
      users: store.users,
      roles,
      tokens,
      auditLog,
      hasher,
      clock,
      policy: () => policy,
      rights: () => rights,
    }),
    ...options.parts,
    healthPart(redis, () => readiness),
    metricsPart(metrics.registry, options.publicMetrics),
    openapiPart(),
    homePart(() => parts),
  ];
  checkNames(parts);
  const policy = new Policy(parts);
  const rights = new RightsFinder(policy, roles);
  const probes = parts.flatMap((part) => Object.entries(part.probes ?? {}));
  const readiness = new Readiness(probes, options.readyWithinMs);
  for (const part of parts) part.metrics?.(metrics.registry);
  const routes = new RouteTable(policy);
  const auditor = new Auditor(auditLog, (username) => store.account(username));
  const hosts = new HostGuard([...options.hosts, options.host]);
  const plan: AppPlan = {
    parts,
    auditor,
    guard: guard({ authenticator, rights, auditor, hosts }),
    lateGuard: lateGuard({ authenticator, rights }),
    routes,
    metrics,
    streams,
    pulse: new Pulse({ redis, silenceMs: options.redisSilenceMs, logger }),
    logger,
    bodyLimit,
    requestTimeoutMs,
    trustProxy,
  };
  return { plan, parts, policy, readiness, store, hasher, clock };
}

function checkNames(parts: readonly PortalPart[]): void {
  const names = new Set<string>();
  for (const { name } of parts) {
    if (typeof name !== "string" || names.has(name)) {
      throw new InvalidOptionError("parts", name, "parts with names that no other part has");
    }
    names.add(name);
  }
}
