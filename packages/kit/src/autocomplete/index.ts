/** `@ropeway/kit/autocomplete`: recent contacts, and members of a group by prefix. */
export { InvalidArgumentError, InvalidNameError, OutOfMemoryError } from "./errors.ts";
export type { Fold } from "./fold.ts";
export { GroupMembers } from "./group-members.ts";
export type { ContactsOptions, MembersOptions, SearchOptions } from "./options.ts";
export { RecentContacts } from "./recent-contacts.ts";
