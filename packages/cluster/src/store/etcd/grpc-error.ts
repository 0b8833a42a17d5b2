/** A call that failed with a gRPC status of etcd or of the network. Stays inside the etcd store. */

/** The gRPC statuses that are handled. */
export const Status = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** A failed call. */
export class GrpcError extends Error {
  readonly status: number;
  /** Whether the server may have seen the request. */
  readonly sent: boolean;

  constructor(status: number, message: string, sent: boolean) {
    super(message);
    this.name = "GrpcError";
    this.status = status;
    this.sent = sent;
  }

  /** Another member, or the same one later, may succeed. */
  get transient(): boolean {
    return this.status === Status.unavailable || this.status === Status.deadlineExceeded;
  }

  /** The token is unknown, expired, or older than the last change of users and roles. */
  get needsLogin(): boolean {
    return (
      this.status === Status.unauthenticated || /revision of auth store is old/.test(this.message)
    );
  }
}
