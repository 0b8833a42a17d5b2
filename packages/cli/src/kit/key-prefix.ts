import type { Context } from "../context.ts";

/** What the keys of locks, rooms and files begin with; those of the documented programs have no prefix. */
export function keyPrefix({ options }: Context): string {
  return options.keyPrefix === undefined ? "" : String(options.keyPrefix);
}

/** A page of a list, as the options ask for it. */
export function pageOf(
  { options }: Context,
  limit: number | undefined,
): { readonly limit?: number; readonly cursor?: string; readonly search?: string } {
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(options.cursor === undefined ? {} : { cursor: String(options.cursor) }),
    ...(options.search === undefined ? {} : { search: String(options.search) }),
  };
}
