/** Parameters and permissions that several routes of the merge queue share. */
import { z } from "zod";
import { needs, type RouteAccess } from "../access/permission.ts";
import { PAGE_BYTES } from "../http/page-budget.ts";

interface Access {
  readonly config: { permission: RouteAccess; pageBytes?: number };
}
export const view: Access = { config: needs("merge:view") };
/** For pages of items. */
export const viewItems: Access = { config: { ...needs("merge:view"), pageBytes: PAGE_BYTES } };
export const operate: Access = { config: needs("merge:operate") };
export const push: Access = { config: needs("merge:push") };

export const Paging: z.ZodObject<{
  cursor: z.ZodOptional<z.ZodString>;
  limit: z.ZodDefault<z.ZodCoercedNumber>;
}> = z.object({
  cursor: z.string().max(5_000).optional().describe("The cursor of the page before."),
  limit: z.coerce.number().int().min(1).max(500).default(50).describe("Maximum of items."),
});
export const Key: z.ZodObject<{ key: z.ZodString }, z.core.$strict> = z.strictObject({
  key: z.string().min(1).max(4_096),
});
export const Url: z.ZodObject<{ url: z.ZodURL }, z.core.$strict> = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).max(2_048),
});
export const Id: z.ZodObject<{ id: z.ZodString }> = z.object({
  id: z.string().regex(/^[\w-]{1,64}$/),
});
export const Count: z.ZodObject<{ items: z.ZodInt }> = z.object({ items: z.int() });
export const NO_BODY: z.ZodUndefined = z.undefined().describe("Done.");
