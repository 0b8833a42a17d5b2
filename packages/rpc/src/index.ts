/** The public exports of calls. */
export type { BreakerState } from "./client/breaker.ts";
export type { BatchItem, Caller, DuplexInput } from "./client/caller.ts";
export { type ClientEvents, type ClientStats, createClient, RpcClient } from "./client/client.ts";
export type { CallRequest, Interceptor } from "./client/interceptor.ts";
export type { PollResult } from "./client/tickets.ts";
export {
  ApplicationError,
  CancelledError,
  DeadlineExceededError,
  HandlerFailedError,
  InternalError,
  InvalidParamsError,
  InvalidRequestError,
  InvalidResultError,
  MessageTooLargeError,
  MethodNotFoundError,
  ParseError,
  RPC_CODES,
  type RpcCode,
  RpcError,
  type RpcErrorOptions,
  ServerClosingError,
  SessionLostError,
  StreamBrokenError,
  UnavailableError,
  type WireError,
} from "./errors.ts";
export type {
  BreakerOptions,
  BulkheadOptions,
  CallOptions,
  ClientOptions,
  LoadSheddingOptions,
  PollOptions,
  ProgressOptions,
  ServerOptions,
  StreamOptions,
  SubmitOptions,
  WireOptions,
} from "./options.ts";
export type { WorkerInfo } from "./registry/directory.ts";
export { listNamespaces, type ServiceInfo } from "./registry/registry.ts";
export type { CallContext, SessionInfo } from "./server/call-context.ts";
export type { Middleware } from "./server/served-service.ts";
export { RpcServer, type ServerStats, serve } from "./server/server.ts";
export type { ServerEvents } from "./server/server-events.ts";
export type { AnySchema } from "./service/schema.ts";
export {
  type AnyHandlers,
  type CallerInput,
  type CallerOutput,
  defineService,
  type Handler,
  type Handlers,
  type MethodDefinition,
  type MethodDescription,
  type MethodTable,
  type Service,
  type ServiceOptions,
  type UntypedHandler,
} from "./service/service.ts";
export type {
  ServiceError,
  ServiceErrorClass,
  ServiceErrorClasses,
  ServiceErrors,
} from "./service/service-error.ts";
export type { InputThen, Method, ServiceClient } from "./service/typed-client.ts";
export type { Session } from "./session/session.ts";
export type { QueueLengths } from "./store/registry-store.ts";
export type { MethodStats } from "./telemetry/histogram.ts";
export type { Metadata, Progress } from "./wire/dialect.ts";
