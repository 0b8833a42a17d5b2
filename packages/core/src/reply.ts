/** What goes to Redis and what comes back. */

/** One word of a command; numbers are written in decimal. */
export type Argument = string | Buffer | number;

/** A raw RESP2 reply. Bulk strings are Buffers only when asked for with `binary`. */
export type Reply = string | number | null | Buffer | readonly Reply[];
