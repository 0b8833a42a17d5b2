import type { Task } from "@ropeway/cluster";
import type { TaskView } from "./tasks-contract.ts";

/** A task as HTTP shows it. Secrets are not part of its configuration to begin with. */
export function taskView(task: Task): TaskView {
  const { taskId, taskName, groupId, nodeId, type, status, desired, immortal, epoch, reason } =
    task;
  return {
    id: taskId,
    name: taskName,
    group: groupId,
    node: nodeId === "" ? null : nodeId,
    type,
    status,
    desired,
    immortal,
    epoch,
    reason,
    config: task.config as Readonly<Record<string, unknown>>,
    progress: task.progress,
    createdAt: new Date(task.createTime).toISOString(),
    updatedAt: new Date(task.updateTime).toISOString(),
  };
}
