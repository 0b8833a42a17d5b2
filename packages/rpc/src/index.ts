/** Public door of calls. */
export {
  type BatchItem,
  type ClientStats,
  createClient,
  type PollOptions,
  RpcClient,
  type SubmitOptions,
} from "./client/client.ts";
export {
  ApplicationError,
  CancelledError,
  DeadlineExceededError,
  HandlerFailedError,
  InvalidNameError,
  InvalidParamsError,
  InvalidRequestError,
  InvalidResultError,
  MessageTooLargeError,
  MethodNotFoundError,
  OverloadedError,
  ParseError,
  RPC_CODES,
  RpcClosedError,
  type RpcCode,
  RpcError,
  ServerClosingError,
  SessionLostError,
  StreamBrokenError,
  UnavailableError,
  type WireError,
  WrongKeyTypeError,
} from "./errors.ts";
export type {
  BreakerOptions,
  BulkheadOptions,
  CallOptions,
  ClientOptions,
  ServerOptions,
  WireOptions,
} from "./options.ts";
export type { WorkerInfo } from "./registry/directory.ts";
export { listNamespaces, type ServiceInfo } from "./registry/registry.ts";
export type { CallContext, SessionInfo } from "./server/call-context.ts";
export type { Middleware } from "./server/served-service.ts";
export { RpcServer, type ServerStats, serve } from "./server/server.ts";
export type { Schema } from "./service/schema.ts";
export {
  type AnyHandlers,
  defineService,
  type Handler,
  type Handlers,
  type MethodDefinition,
  type MethodDescription,
  type MethodTable,
  type Service,
} from "./service/service.ts";
export type { Method, ServiceClient } from "./service/typed-client.ts";
export type { Session } from "./session/session.ts";
export type { StreamOptions } from "./stream/stream-call.ts";
export type { MethodStats } from "./telemetry/histogram.ts";
export type { Progress } from "./wire/dialect.ts";
