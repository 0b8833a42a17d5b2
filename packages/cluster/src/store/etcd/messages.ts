/**
 * The messages of proto/etcd.proto, with names in camel case: a type for TypeScript and a codec of the
 * same name. A test compares every field with the .proto file.
 */
import {
  bool,
  bytes,
  int32,
  int64,
  list,
  type Message,
  message,
  nested,
  text,
  uint64,
} from "./protobuf.ts";

export interface ResponseHeader {
  readonly clusterId: bigint;
  readonly memberId: bigint;
  readonly revision: bigint;
  readonly raftTerm: bigint;
}
export const ResponseHeader: Message<ResponseHeader> = message<ResponseHeader>({
  clusterId: uint64(1),
  memberId: uint64(2),
  revision: int64(3),
  raftTerm: uint64(4),
});

export interface KeyValue {
  readonly key: Buffer | string;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  readonly version: bigint;
  readonly value: string;
  readonly lease: bigint;
}
export const KeyValue: Message<KeyValue> = message<KeyValue>({
  key: bytes(1),
  createRevision: int64(2),
  modRevision: int64(3),
  version: int64(4),
  value: text(5),
  lease: int64(6),
});

export interface RangeRequest {
  readonly key: Buffer | string;
  readonly rangeEnd: string;
  readonly limit: bigint;
  readonly revision: bigint;
  readonly keysOnly: boolean;
  readonly countOnly: boolean;
}
export const RangeRequest: Message<RangeRequest> = message<RangeRequest>({
  key: bytes(1),
  rangeEnd: text(2),
  limit: int64(3),
  revision: int64(4),
  keysOnly: bool(8),
  countOnly: bool(9),
});

export interface RangeResponse {
  readonly header: ResponseHeader | undefined;
  readonly kvs: readonly KeyValue[];
  readonly more: boolean;
  readonly count: bigint;
}
export const RangeResponse: Message<RangeResponse> = message<RangeResponse>({
  header: nested(1, ResponseHeader),
  kvs: list(2, KeyValue),
  more: bool(3),
  count: int64(4),
});

export interface PutRequest {
  readonly key: string;
  readonly value: string;
  readonly lease: bigint;
}
export const PutRequest: Message<PutRequest> = message<PutRequest>({
  key: text(1),
  value: text(2),
  lease: int64(3),
});

export interface PutResponse {
  readonly header: ResponseHeader | undefined;
}
export const PutResponse: Message<PutResponse> = message<PutResponse>({
  header: nested(1, ResponseHeader),
});

export interface DeleteRangeRequest {
  readonly key: string;
  readonly rangeEnd: string;
}
export const DeleteRangeRequest: Message<DeleteRangeRequest> = message<DeleteRangeRequest>({
  key: text(1),
  rangeEnd: text(2),
});

export interface DeleteRangeResponse {
  readonly header: ResponseHeader | undefined;
  readonly deleted: bigint;
}
export const DeleteRangeResponse: Message<DeleteRangeResponse> = message<DeleteRangeResponse>({
  header: nested(1, ResponseHeader),
  deleted: int64(2),
});

export interface RequestOp {
  readonly requestRange: RangeRequest | undefined;
  readonly requestPut: PutRequest | undefined;
  readonly requestDeleteRange: DeleteRangeRequest | undefined;
}
export const RequestOp: Message<RequestOp> = message<RequestOp>({
  requestRange: nested(1, RangeRequest),
  requestPut: nested(2, PutRequest),
  requestDeleteRange: nested(3, DeleteRangeRequest),
});

export interface ResponseOp {
  readonly responseRange: RangeResponse | undefined;
  readonly responsePut: PutResponse | undefined;
  readonly responseDeleteRange: DeleteRangeResponse | undefined;
}
export const ResponseOp: Message<ResponseOp> = message<ResponseOp>({
  responseRange: nested(1, RangeResponse),
  responsePut: nested(2, PutResponse),
  responseDeleteRange: nested(3, DeleteRangeResponse),
});

export interface Compare {
  readonly result: number;
  readonly target: number;
  readonly key: string;
  readonly version: bigint;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  readonly value: string;
  readonly lease: bigint;
}
export const Compare: Message<Compare> = message<Compare>({
  result: int32(1),
  target: int32(2),
  key: text(3),
  version: int64(4),
  createRevision: int64(5),
  modRevision: int64(6),
  value: text(7),
  lease: int64(8),
});

export interface TxnRequest {
  readonly compare: readonly Compare[];
  readonly success: readonly RequestOp[];
  readonly failure: readonly RequestOp[];
}
export const TxnRequest: Message<TxnRequest> = message<TxnRequest>({
  compare: list(1, Compare),
  success: list(2, RequestOp),
  failure: list(3, RequestOp),
});

export interface TxnResponse {
  readonly header: ResponseHeader | undefined;
  readonly succeeded: boolean;
  readonly responses: readonly ResponseOp[];
}
export const TxnResponse: Message<TxnResponse> = message<TxnResponse>({
  header: nested(1, ResponseHeader),
  succeeded: bool(2),
  responses: list(3, ResponseOp),
});

export interface CompactionRequest {
  readonly revision: bigint;
  readonly physical: boolean;
}
export const CompactionRequest: Message<CompactionRequest> = message<CompactionRequest>({
  revision: int64(1),
  physical: bool(2),
});

export interface CompactionResponse {
  readonly header: ResponseHeader | undefined;
}
export const CompactionResponse: Message<CompactionResponse> = message<CompactionResponse>({
  header: nested(1, ResponseHeader),
});

export interface WatchCreateRequest {
  readonly key: string;
  readonly rangeEnd: string;
  readonly startRevision: bigint;
  readonly progressNotify: boolean;
  readonly prevKv: boolean;
}
export const WatchCreateRequest: Message<WatchCreateRequest> = message<WatchCreateRequest>({
  key: text(1),
  rangeEnd: text(2),
  startRevision: int64(3),
  progressNotify: bool(4),
  prevKv: bool(6),
});

export interface WatchRequest {
  readonly createRequest: WatchCreateRequest | undefined;
}
export const WatchRequest: Message<WatchRequest> = message<WatchRequest>({
  createRequest: nested(1, WatchCreateRequest),
});

export interface Event {
  readonly type: number;
  readonly kv: KeyValue | undefined;
  readonly prevKv: KeyValue | undefined;
}
export const Event: Message<Event> = message<Event>({
  type: int32(1),
  kv: nested(2, KeyValue),
  prevKv: nested(3, KeyValue),
});

export interface WatchResponse {
  readonly header: ResponseHeader | undefined;
  readonly watchId: bigint;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compactRevision: bigint;
  readonly cancelReason: string;
  readonly events: readonly Event[];
}
export const WatchResponse: Message<WatchResponse> = message<WatchResponse>({
  header: nested(1, ResponseHeader),
  watchId: int64(2),
  created: bool(3),
  canceled: bool(4),
  compactRevision: int64(5),
  cancelReason: text(6),
  events: list(11, Event),
});

export interface LeaseGrantRequest {
  readonly ttl: bigint;
  readonly id: bigint;
}
export const LeaseGrantRequest: Message<LeaseGrantRequest> = message<LeaseGrantRequest>({
  ttl: int64(1),
  id: int64(2),
});

export interface LeaseGrantResponse {
  readonly header: ResponseHeader | undefined;
  readonly id: bigint;
  readonly ttl: bigint;
  readonly error: string;
}
export const LeaseGrantResponse: Message<LeaseGrantResponse> = message<LeaseGrantResponse>({
  header: nested(1, ResponseHeader),
  id: int64(2),
  ttl: int64(3),
  error: text(4),
});

export interface LeaseRevokeRequest {
  readonly id: bigint;
}
export const LeaseRevokeRequest: Message<LeaseRevokeRequest> = message<LeaseRevokeRequest>({
  id: int64(1),
});

export interface LeaseRevokeResponse {
  readonly header: ResponseHeader | undefined;
}
export const LeaseRevokeResponse: Message<LeaseRevokeResponse> = message<LeaseRevokeResponse>({
  header: nested(1, ResponseHeader),
});

export interface LeaseKeepAliveRequest {
  readonly id: bigint;
}
export const LeaseKeepAliveRequest: Message<LeaseKeepAliveRequest> = message<LeaseKeepAliveRequest>(
  {
    id: int64(1),
  },
);

export interface LeaseKeepAliveResponse {
  readonly header: ResponseHeader | undefined;
  readonly id: bigint;
  readonly ttl: bigint;
}
export const LeaseKeepAliveResponse: Message<LeaseKeepAliveResponse> =
  message<LeaseKeepAliveResponse>({
    header: nested(1, ResponseHeader),
    id: int64(2),
    ttl: int64(3),
  });

export type StatusRequest = Record<string, never>;
export const StatusRequest: Message<StatusRequest> = message({});

export interface StatusResponse {
  readonly header: ResponseHeader | undefined;
  readonly version: string;
  readonly dbSize: bigint;
  readonly leader: bigint;
}
export const StatusResponse: Message<StatusResponse> = message<StatusResponse>({
  header: nested(1, ResponseHeader),
  version: text(2),
  dbSize: int64(3),
  leader: uint64(4),
});

export interface AuthenticateRequest {
  readonly name: string;
  readonly password: string;
}
export const AuthenticateRequest: Message<AuthenticateRequest> = message<AuthenticateRequest>({
  name: text(1),
  password: text(2),
});

export interface AuthenticateResponse {
  readonly header: ResponseHeader | undefined;
  readonly token: string;
}
export const AuthenticateResponse: Message<AuthenticateResponse> = message<AuthenticateResponse>({
  header: nested(1, ResponseHeader),
  token: text(2),
});
