/** The public exports of cluster. */
export { builtInRunners, Cluster, type ClusterOptions } from "./cluster.ts";
export {
  AlreadyExistsError,
  CompactedError,
  ConflictError,
  DuplicateTaskError,
  IdempotencyError,
  IllegalTransitionError,
  NodeIdTakenError,
  ProtectedError,
  SecretKeyMissingError,
  SecretUnreadableError,
  StoreProtocolError,
  StoreRefusedError,
  StoreUnavailableError,
  StoreUnsupportedError,
  UnknownAlertError,
  UnknownNodeError,
  UnknownRoleError,
  UnknownTaskError,
  UnknownTaskTypeError,
  UnknownTokenError,
} from "./errors.ts";
export {
  type Alert,
  type AlertDraft,
  type AlertFilter,
  type AlertKind,
  type AlertSink,
  Alerts,
} from "./inspection/alerts.ts";
export { Inspector, type InspectorEvents } from "./inspection/inspector.ts";
export { type WebhookOptions, webhookSink } from "./inspection/webhook.ts";
export type { NodeType } from "./keys.ts";
export { ClusterNode, type NodeEvents } from "./nodes/cluster-node.ts";
export {
  HealthServer,
  type HealthServerOptions,
  type HealthSource,
} from "./nodes/health-server.ts";
export type { NodeLoad, NodeRecord } from "./nodes/node-record.ts";
export type { Nodes, NodeView } from "./nodes/nodes.ts";
export { type EtcdPlace, type OpenStoreOptions, openStore, parseEtcdUrl } from "./open-store.ts";
export type { InspectorOptions, NodeOptions } from "./options.ts";
export type { KeyRecord, Run, Runner, RunOffset, RunPhase } from "./runner.ts";
export { scriptedRunner } from "./runners/scripted-runner.ts";
export { type SyncRunnerOptions, syncRunner } from "./runners/sync-runner.ts";
export { type Json, SecretBox, type SplitConfig } from "./secrets.ts";
export type { StoreTls } from "./store/etcd/channel.ts";
export { type EtcdStoreOptions, openEtcdStore } from "./store/etcd/etcd-store.ts";
export { openRedisStore, type RedisStoreOptions } from "./store/redis/redis-store.ts";
export type {
  Compare,
  Entry,
  Grant,
  Operation,
  RangeOptions,
  RangeResult,
  Store,
  StoreStatus,
  Transaction,
  TransactionResult,
  WatchEvent,
  WatchOptions,
} from "./store/store.ts";
export type { NewTask } from "./tasks/creation.ts";
export { isRunning, TASK_STATUSES, type TaskStatus } from "./tasks/status.ts";
export type { Task, TaskProgress } from "./tasks/task.ts";
export type { TaskFilter } from "./tasks/task-list.ts";
export type {
  KeyRecordKind,
  PageRequest,
  StoredKey,
  TaskEvent,
  TaskRecords,
} from "./tasks/task-records.ts";
export type { TaskEdit, Tasks } from "./tasks/tasks.ts";
