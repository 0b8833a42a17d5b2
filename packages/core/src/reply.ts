/** The arguments of commands, and replies. */

/** One word of a command; numbers are written in decimal. */
export type Argument = string | Buffer | number;

/** A raw RESP2 reply. Bulk strings are Buffers only with the option `binary`. */
export type Reply = string | number | null | Buffer | readonly Reply[];
