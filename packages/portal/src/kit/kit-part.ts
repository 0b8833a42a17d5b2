/** The building blocks in the portal: locks held, semaphores, rooms and file transfers. */

import type { Page, Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { Chat } from "@ropeway/kit/chat";
import { Files } from "@ropeway/kit/files";
import { LockInspector } from "@ropeway/kit/lock";
import { SemaphoreInspector } from "@ropeway/kit/semaphore";
import { z } from "zod";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import { ChatRoomView, FileTransferView, HeldLockView, SemaphoreUseView } from "./kit-contract.ts";

/** What the part is given. */
export interface KitPartOptions {
  /** What the keys begin with; those of the documented programs have no prefix. @default "" */
  readonly prefix?: string;
}

const view = { config: needs("kit:view") };
const operate = { config: needs("kit:operate") };
const PageQuery = z.object({
  cursor: z
    .string()
    .regex(/^\d{1,20}$/)
    .refine(isScanCursor, "must be the cursor of an earlier page")
    .optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(50),
  search: z.string().max(200).optional(),
});
/** Redis keeps them in 64 bits. */
function isScanCursor(text: string): boolean {
  return /^\d{1,20}$/.test(text) && BigInt(text) < 2n ** 64n;
}
const LockPath = z.object({ name: z.string().min(1).max(1_024) });
const Broken = z.object({ broken: z.boolean() });

/** The schema of a page. */
function pageSchema<T>(
  item: z.ZodType<T>,
): z.ZodType<{ items: readonly T[]; cursor: string | null }> {
  return z.object({ items: z.array(item), cursor: z.string().nullable() });
}

/** The permissions of its routes. */
export const kitPermissions: PermissionSpecs = {
  "kit:view": { least: "viewer", means: "See locks, semaphores, rooms and file transfers." },
  "kit:operate": { least: "operator", means: "Break a lock." },
};

/** The part for locks, semaphores, rooms and transfers. */
export function kitPart(redis: Redis, options: KitPartOptions = {}): PortalPart {
  requireRedis(redis);
  const { prefix = "" } = options;
  return {
    name: "kit",
    about: {
      en: "Building blocks: locks held, semaphores, chat rooms and file transfers.",
      zh: "构建模块：持有的锁、信号量、聊天室和文件传输。",
    },
    permissions: kitPermissions,
    routes(app) {
      addLocks(app, new LockInspector(redis, { prefix }));
      addRest(app, redis, prefix);
    },
  };
}

function addLocks(app: PortalApp, locks: LockInspector): void {
  app.get(
    "/api/kit/locks",
    {
      ...view,
      schema: {
        summary: "List the locks that are held",
        querystring: PageQuery,
        response: { 200: pageSchema(HeldLockView) },
      },
    },
    async (request) =>
      paged(await locks.list(request.query), ({ token: _secret, fence, ...lock }) => ({
        ...lock,
        fence: fence ?? null,
      })),
  );
  app.post(
    "/api/kit/locks/:name/break",
    {
      ...operate,
      schema: {
        summary: "Take a lock from its holder and hand it to the next waiter",
        params: LockPath,
        response: { 200: Broken },
      },
    },
    async (request) => ({ broken: await locks.break(request.params.name) }),
  );
}

function addRest(app: PortalApp, redis: Redis, prefix: string): void {
  const semaphores = new SemaphoreInspector(redis, { prefix });
  const list = <T>(summary: string, item: z.ZodType<T>) => ({
    ...view,
    schema: { summary, querystring: PageQuery, response: { 200: pageSchema(item) } },
  });
  app.get("/api/kit/semaphores", list("The semaphores in use", SemaphoreUseView), async (request) =>
    paged(await semaphores.list(request.query), ({ limit, ...use }) => ({
      ...use,
      limit: limit ?? null,
    })),
  );
  app.get("/api/kit/rooms", list("The rooms of group chats", ChatRoomView), async (request) =>
    paged(await new Chat(redis, { prefix }).rooms(request.query), (room) => room),
  );
  app.get(
    "/api/kit/transfers",
    list("The files on their way", FileTransferView),
    async (request) => {
      const { search: _unused, ...page } = request.query;
      return paged(
        await Files.transfers(redis, { prefix, ...page }),
        ({ size, since, ...transfer }) => ({
          ...transfer,
          size: size ?? null,
          since: new Date(since).toISOString(),
        }),
      );
    },
  );
}

function paged<T, V>(
  { items, cursor }: Page<T>,
  of: (item: T) => V,
): { items: V[]; cursor: string | null } {
  return { items: items.map(of), cursor: cursor ?? null };
}
