/**
 * A task and its indexes, as operations of one transaction. Whatever changes a task goes through here,
 * so no index can be forgotten.
 */
import { keys } from "../keys.ts";
import { putRecord } from "../record.ts";
import type { Operation } from "../store/store.ts";
import type { Task } from "./task.ts";

/** The operations that turn one state of a task into another; undefined is "does not exist". */
export function taskOperations(before: Task | undefined, after: Task | undefined): Operation[] {
  const old = before === undefined ? new Map<string, string>() : pathsOf(before);
  const now = after === undefined ? new Map<string, string>() : pathsOf(after);
  const operations: Operation[] = [];
  for (const key of old.keys()) if (!now.has(key)) operations.push({ op: "delete", key });
  for (const [key, value] of now) {
    if (old.get(key) !== value) operations.push({ op: "put", key, value });
  }
  return operations;
}

function pathsOf(task: Task): Map<string, string> {
  const { taskId, groupId, nodeId, taskName, type, status, md5, desired, generation } = task;
  const records: [string, object][] = [
    [keys.task(taskId), task],
    [keys.ofGroup(groupId, taskId), { groupId, taskId }],
    [keys.ofStatus(status, taskId), { taskId }],
    [keys.ofName(taskName), { taskId }],
    [keys.ofType(type, taskId), { taskId, groupId, nodeId }],
    [keys.ofMd5(md5), { taskId, groupId, nodeId }],
  ];
  if (nodeId !== "") {
    // Written again when its operator changes something: the node watches only this.
    records.push([keys.ofNode(nodeId, taskId), { nodeId, taskId, desired, generation }]);
  }
  return new Map(
    records.map(([key, value]) => [key, (putRecord(key, value) as { value: string }).value]),
  );
}
