/** What a change to the merge queue is about. Its routes name keys and endpoints in bodies, not in paths. */
import type { FastifyRequest } from "fastify";
import { noteSubject } from "../access/subject.ts";
import { loggedPath } from "../http/logged-path.ts";

/** A merge key; of a URL in it, only the origin. */
export function noteMergeKey(request: FastifyRequest, key: string): void {
  noteSubject(request, "key", loggedPath(key));
}

/** An endpoint: its origin, because the rest of a URL may hold secrets. */
export function noteEndpoint(request: FastifyRequest, url: string): void {
  noteSubject(request, "endpoint", URL.canParse(url) ? `${new URL(url).origin}/***` : "");
}
