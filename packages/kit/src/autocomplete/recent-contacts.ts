/** The people a user wrote to last, newest first, on the documented list. */

import { InvalidArgumentError, type Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { checkName } from "../keyspace.ts";
import { folded } from "./fold.ts";
import {
  type ContactsOptions,
  resolveContactSearch,
  resolveContactsOptions,
  type SearchOptions,
} from "./options.ts";
import { ContactsStore } from "./store.ts";

/** Recent contacts of one user. */
export class RecentContacts {
  readonly user: string;
  readonly #options: Required<ContactsOptions>;
  readonly #store: ContactsStore;

  constructor(redis: Redis, user: string, options?: ContactsOptions) {
    requireRedis(redis);
    this.user = user;
    this.#options = resolveContactsOptions(options);
    this.#store = new ContactsStore(redis, user, this.#options.prefix);
  }

  /** Puts a contact in front; the oldest beyond `max` are forgotten. */
  async add(contact: string): Promise<void> {
    checkName("the contact", contact);
    await this.#store.remember(contact, this.#options.max);
  }

  /** Removes a contact. Returns false if it was not there. */
  async remove(contact: string): Promise<boolean> {
    checkName("the contact", contact);
    return this.#store.forget(contact);
  }

  /** Contacts whose name begins with the prefix, newest first; all of them for "". */
  async search(start: string, options?: SearchOptions): Promise<readonly string[]> {
    const { max, fold } = this.#options;
    const { limit } = resolveContactSearch(options, max);
    if (typeof start !== "string") throw new InvalidArgumentError("start", start, "a string");
    const plain = folded(start, fold);
    const all = await this.#store.list(max);
    return all.filter((contact) => folded(contact, fold).startsWith(plain)).slice(0, limit);
  }
}
