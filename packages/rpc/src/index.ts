/** Public door of calls. */
export {
  type BatchItem,
  type ClientStats,
  createClient,
  type PollOptions,
  RpcClient,
  type SubmitOptions,
} from "./client.ts";
export type { CallContext, SessionInfo } from "./context.ts";
export type { Progress } from "./dialect.ts";
export type { WorkerInfo } from "./directory.ts";
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
export type { MethodStats } from "./histogram.ts";
export type {
  BreakerOptions,
  BulkheadOptions,
  CallOptions,
  ClientOptions,
  ServerOptions,
  WireOptions,
} from "./options.ts";
export { listNamespaces, type ServiceInfo } from "./registry.ts";
export type { Schema } from "./schema.ts";
export type { Middleware } from "./served.ts";
export { RpcServer, type ServerStats, serve } from "./server.ts";
export {
  type AnyHandlers,
  defineService,
  type Handler,
  type Handlers,
  type MethodDefinition,
  type MethodDescription,
  type MethodTable,
  type Service,
} from "./service.ts";
export type { Session } from "./session.ts";
export type { StreamOptions } from "./stream-call.ts";
export type { Method, ServiceClient } from "./typed-client.ts";
