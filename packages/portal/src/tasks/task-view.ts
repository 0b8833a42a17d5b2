import type { Task } from "@ropeway/cluster";
import type { TaskView } from "./tasks-contract.ts";

/** A task as HTTP shows it. Its configuration never contains secrets. */
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
