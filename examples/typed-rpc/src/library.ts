/** The service, described once for both sides. */
import { defineService } from "@ropeway/rpc";
import { z } from "zod";

export const library = defineService("library", {
  lend: {
    input: z.object({ title: z.string().min(1), days: z.number().int().positive().default(14) }),
    output: z.object({ due: z.string() }),
    doc: "Lends a book.",
  },
  index: { input: z.object({ books: z.number() }), output: z.string(), doc: "Takes a while." },
  read: {
    input: z.object({ title: z.string() }),
    output: z.string(),
    kind: "stream",
    doc: "The book, page by page.",
  },
  translate: {
    input: z.object({ to: z.enum(["loud", "quiet"]) }),
    incoming: z.string(),
    output: z.string(),
    kind: "duplex",
    doc: "Each sentence as it comes.",
  },
});
