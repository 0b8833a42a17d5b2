/**
 * The subject of a change, as the audit log shows it: nouns and names, such as `user ann role operator` or
 * `queue mail job 12`. For most routes the path contains it. A route that creates something, or whose body
 * names the subject, calls noteSubject().
 */
import type { FastifyRequest } from "fastify";
import { loggedPath } from "../http/logged-path.ts";

const LONGEST = 500;

/** Sets what the request changes, as nouns and names in turn. */
export function noteSubject(request: FastifyRequest, ...words: readonly string[]): void {
  request.subject = words.join(" ").slice(0, LONGEST);
}

/** What the request changes; "" if it is no single thing. */
export function subjectOf(request: FastifyRequest): string {
  return request.subject || subjectOfPath(request.routeOptions.url ?? "", request.url);
}

/** `/api/queues/:queue/jobs/:id` with `/api/queues/mail/jobs/12` is `queue mail job 12`. */
export function subjectOfPath(template: string, url: string): string {
  const nouns = template.split("/");
  const given = loggedPath(url).split("/"); // a URL in it is masked
  const words = nouns.flatMap((part, at) =>
    part.startsWith(":") ? [nounOf(nouns[at - 1] ?? "", part), decoded(given[at] ?? "")] : [],
  );
  return words.join(" ").slice(0, LONGEST);
}

/** `tasks` of `/tasks/:id` is a task; a parameter such as `:queue` names itself. */
function nounOf(before: string, parameter: string): string {
  return /^:(id|name)$/.test(parameter) ? before.replace(/s$/, "") : parameter.slice(1);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
