/** The options of a page of numbered things: messages of a room, messages of a mailbox. */
import { integer, type OptionTable, optional, satisfying } from "@ropeway/core/internal";

const isNumber = (value: unknown) => typeof value === "string" && /^\d{1,15}$/.test(value);

/** `cursor` and `limit` of such a page. */
export const numberedPage: OptionTable<{ cursor?: string | undefined; limit?: number }> = {
  cursor: {
    default: undefined,
    rule: optional(satisfying("a cursor of an earlier page", isNumber)),
  },
  limit: { default: 50, rule: integer(1, 1_000) },
};
