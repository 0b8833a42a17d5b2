import { expect, test } from "vitest";
import { subjectOfPath } from "../src/access/subject.ts";

test.each([
  ["/api/tasks/:id/stop", "/api/tasks/task_1_2_3/stop", "task task_1_2_3"],
  ["/api/jobs/queues/:queue/jobs/:id", "/api/jobs/queues/mail/jobs/12?x=1", "queue mail job 12"],
  ["/api/jobs/queues/:queue/drain", "/api/jobs/queues/a%20b/drain", "queue a b"],
  ["/rpc/:ns/:service", "/rpc/shop/orders", "ns shop service orders"],
  ["/api/merge/pause", "/api/merge/pause", ""],
  ["/v3/queue/*", "/v3/queue/k/POST/http://user:secret@h/p?token=1", ""],
])("%s with %s is about %j", (template, url, subject) => {
  expect(subjectOfPath(template, url)).toBe(subject);
});

test("a URL in a path is masked, and a long name is cut", () => {
  const url = encodeURIComponent("https://user:secret@host/path/secret");
  const subject = subjectOfPath("/api/merge/schedules/:schedule", `/api/merge/schedules/${url}`);
  expect(subject).toBe("schedule https://host/***");
  expect(subjectOfPath("/api/tasks/:id", `/api/tasks/${"x".repeat(2_000)}`)).toHaveLength(500);
});
