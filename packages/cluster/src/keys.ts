/**
 * Every path of the cluster's store; no other file contains one. A prefix always ends with "/", so node 1
 * never meets node 10. docs/reference/store.md describes the values.
 */

/** The types of nodes: portals inspect, redissyncer nodes run tasks. */
export type NodeType = "portal" | "redissyncer";

export const keys = {
  /** uint64 as text: the next process takes it and adds 1. */
  idSeed: "/uniqid/idseed",
  /** ms since 1970 as text: when the last inspection ended. */
  lastInspection: "/inspect/lastinspectiontime",
  /** JSON {nodeId}, with a lease: who inspects at the moment. */
  inspectionLock: "/inspect/execlock",
  /** JSON {nodeId, at}: the node takes no new tasks. */
  drain: (nodeId: string): string => `/inspect/drain/${nodeId}`,
  drains: "/inspect/drain/",

  /** JSON, see nodes/node-record.ts; with a lease while online. */
  node: (type: NodeType, nodeId: string): string => `/nodes/${type}/${nodeId}`,
  nodes: (type: NodeType): string => `/nodes/${type}/`,

  /** JSON, see tasks/task.ts: the task. */
  task: (taskId: string): string => `/tasks/taskid/${taskId}`,
  tasks: "/tasks/taskid/",
  /** JSON {nodeId, taskId}: written again whenever the node has something to do about the task. */
  ofNode: (nodeId: string, taskId: string): string => `/tasks/node/${nodeId}/${taskId}`,
  tasksOfNode: (nodeId: string): string => `/tasks/node/${nodeId}/`,
  tasksOfNodes: "/tasks/node/",
  /** JSON {groupId, taskId}. */
  ofGroup: (groupId: string, taskId: string): string => `/tasks/groupid/${groupId}/${taskId}`,
  tasksOfGroup: (groupId: string): string => `/tasks/groupid/${groupId}/`,
  /** JSON {taskId}. */
  ofStatus: (status: string, taskId: string): string => `/tasks/status/${status}/${taskId}`,
  tasksOfStatus: (status: string): string => `/tasks/status/${status}/`,
  /** JSON {taskId}; names are unique. */
  ofName: (name: string): string => `/tasks/name/${name}`,
  /** JSON {taskId, groupId, nodeId}. */
  ofType: (type: string, taskId: string): string => `/tasks/type/${type}/${taskId}`,
  tasksOfType: (type: string): string => `/tasks/type/${type}/`,
  /** JSON {taskId, groupId, nodeId}; unique. */
  ofMd5: (md5: string): string => `/tasks/md5/${md5}`,
  /** JSON {nodeId}, with the node's lease: who runs the task. Its createRevision is the epoch. */
  owner: (taskId: string): string => `/tasks/owner/${taskId}`,
  owners: "/tasks/owner/",
  /** JSON {replId, replOffset, db, epoch, at}. */
  offset: (taskId: string): string => `/tasks/offset/${taskId}`,
  /** JSON {id, taskId, command, command_type}: the newest 1000. */
  bigKey: (taskId: string, name: string): string => `/tasks/bigkey/${taskId}/${name}`,
  bigKeys: (taskId: string): string => `/tasks/bigkey/${taskId}/`,
  /** JSON: keys that could not be written, the newest 1000. */
  discarded: (taskId: string, name: string): string => `/tasks/discard/${taskId}/${name}`,
  allDiscarded: (taskId: string): string => `/tasks/discard/${taskId}/`,
  /** JSON: what happened to a task, the newest 200. */
  event: (taskId: string, name: string): string => `/tasks/event/${taskId}/${name}`,
  events: (taskId: string): string => `/tasks/event/${taskId}/`,
  /** Where these lists of all tasks begin: {taskId}/{name} follows. */
  eventsOfAll: "/tasks/event/",
  bigKeysOfAll: "/tasks/bigkey/",
  discardedOfAll: "/tasks/discard/",
  /** JSON {taskId, body}: an idempotency key that was used. */
  request: (digest: string): string => `/tasks/request/${digest}`,
  requests: "/tasks/request/",
  /** JSON {id, redis_version, rdb_version}. */
  rdbVersion: (redis: string, rdb: number): string => `/tasks/rdbversion/${redis}/${rdb}`,
  rdbVersions: "/tasks/rdbversion/",

  /** JSON, see access/user.ts. */
  user: (username: string): string => `/tasks/user/${username}`,
  users: "/tasks/user/",
  /** JSON {username, at}: the first admin was created; never again. */
  firstAdmin: "/uniqid/firstadmin",
  /** JSON {name, permissions, groups}. */
  role: (name: string): string => `/tasks/role/${name}`,
  roles: "/tasks/role/",
  /** JSON, see access/token.ts. */
  token: (id: string): string => `/tasks/token/${id}`,
  tokens: "/tasks/token/",
  /** JSON, see access/audit.ts. */
  audit: (id: string): string => `/tasks/audit/${id}`,
  audits: "/tasks/audit/",
  /** JSON, see inspection/alerts.ts. */
  alert: (id: string): string => `/tasks/alert/${id}`,
  alerts: "/tasks/alert/",
} as const;

/**
 * The bytes of an id, group, type or digest in a path that another program wrote. Two of them fit into a path
 * with room for the rest, so every path that is derived from such a path is valid.
 */
const MOST_PART_BYTES = 400;
/** Names are alone in their path: 200 characters of four bytes. */
const MOST_NAME_BYTES = 800;

/** Whether it can be a part of any path. */
export function isPart(value: unknown): value is string {
  return isShort(value, MOST_PART_BYTES);
}

/** Whether it can be a name in a path. */
export function isName(value: unknown): value is string {
  return isShort(value, MOST_NAME_BYTES);
}

function isShort(value: unknown, most: number): boolean {
  return typeof value === "string" && Buffer.byteLength(value) <= most && !/\p{C}/u.test(value);
}

/** The part that follows a prefix; undefined if more than one part follows, or one that is not ours. */
export function childOf(prefix: string, path: string): string | undefined {
  const part = path.slice(prefix.length);
  return path.startsWith(prefix) && !part.includes("/") && isPart(part) ? part : undefined;
}

/** The parts that follow a prefix in the paths of its entries; paths of other programs are left out. */
export function childrenOf(
  prefix: string,
  entries: readonly { readonly key: string }[],
): readonly string[] {
  return entries.map(({ key }) => childOf(prefix, key)).filter((part) => part !== undefined);
}

/** The last part of a path. */
export function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
