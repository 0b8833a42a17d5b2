// Every error of the cluster package. The portal maps each to an HTTP status.
import { RopewayError } from "@ropeway/core";
import { reasonOf, show } from "@ropeway/core/internal";

/** The store could not be reached in time. If `maybeApplied` is true, the change may or may not have been made. */
export class StoreUnavailableError extends RopewayError {
  constructor(where: string, maybeApplied: boolean, cause: unknown) {
    const doubt = maybeApplied ? "; the change may or may not have been made" : "";
    super("STORE_UNAVAILABLE", `the store ${where} is unavailable: ${reasonOf(cause)}${doubt}`, {
      cause,
      details: { where, maybeApplied },
    });
  }

  get maybeApplied(): boolean {
    return this.details.maybeApplied === true;
  }
}

/** The store refused a request; nothing was changed. */
export class StoreRefusedError extends RopewayError {
  constructor(where: string, reason: string, status?: number) {
    super("STORE_REFUSED", `the store ${where} refused a request: ${reason}`, {
      details: { where, reason, status },
    });
  }
}

/** The store sent a message that does not follow its protocol. */
export class StoreProtocolError extends RopewayError {
  constructor(reason: string) {
    super("STORE_PROTOCOL", `the store's response cannot be read: ${reason}`, {
      details: { reason },
    });
  }
}

/** The store is older than etcd 3.4 or cannot be used for another reason. */
export class StoreUnsupportedError extends RopewayError {
  constructor(where: string, reason: string) {
    super("STORE_UNSUPPORTED", `the store ${where} cannot be used: ${reason}`, {
      details: { where, reason },
    });
  }
}

/** The store no longer keeps the events from that revision on. Read the current state, then watch again. */
export class CompactedError extends RopewayError {
  constructor(from: number, oldest: number) {
    super("COMPACTED", `events from revision ${from} are gone; the oldest kept is ${oldest}`, {
      details: { from, oldest },
    });
  }
}

/** Another process is registered under the node id. */
export class NodeIdTakenError extends RopewayError {
  constructor(nodeId: string, address: string) {
    super(
      "NODE_ID_TAKEN",
      `a node with the id ${show(nodeId)} is online at ${address}; choose another id`,
      {
        details: { nodeId, address },
      },
    );
  }
}

/** There is no node with that id. */
export class UnknownNodeError extends RopewayError {
  constructor(nodeId: string) {
    super("UNKNOWN_NODE", `node ${show(nodeId)} not found`, { details: { nodeId } });
  }
}

/** There is no task with that id. */
export class UnknownTaskError extends RopewayError {
  constructor(taskId: string) {
    super("UNKNOWN_TASK", `task ${show(taskId)} not found`, { details: { taskId } });
  }
}

/** A task with the same name, or with the same source, target and name, exists already. */
export class DuplicateTaskError extends RopewayError {
  /** The name or the MD5 that is taken. */
  readonly field: "name" | "md5";
  readonly value: string;
  /** The task that has it; undefined if the caller may not see that task. */
  readonly taskId: string | undefined;

  constructor(field: "name" | "md5", value: string, taskId?: string) {
    const holder = taskId === undefined ? "" : `: ${taskId}`;
    super(
      "DUPLICATE_TASK",
      `a task with the ${field} ${show(value)} exists already${holder}; choose another name`,
      { details: { field, value, ...(taskId !== undefined && { taskId }) } },
    );
    this.field = field;
    this.value = value;
    this.taskId = taskId;
  }
}

/** The task cannot change from its present status to the requested one. */
export class IllegalTransitionError extends RopewayError {
  constructor(taskId: string, from: string, to: string) {
    super("ILLEGAL_TRANSITION", `task ${taskId} is ${from} and cannot become ${to}`, {
      details: { taskId, from, to },
    });
  }
}

/** Other writers changed the record in every attempt. Nothing was changed. */
export class ConflictError extends RopewayError {
  constructor(what: string) {
    super("CONFLICT", `${what} was changed by another writer at the same time; try again`, {
      details: { what },
    });
  }
}

/** The idempotency key was used before with another body. */
export class IdempotencyError extends RopewayError {
  constructor(key: string, removedTaskId?: string) {
    const why =
      removedTaskId === undefined
        ? "belongs to another request"
        : `was used for task ${removedTaskId}, which was removed`;
    super("IDEMPOTENCY_KEY_REUSED", `the idempotency key ${show(key)} ${why}`, {
      details: { key, ...(removedTaskId === undefined ? {} : { removedTaskId }) },
    });
  }
}

/** No runner of this installation knows the task's type. */
export class UnknownTaskTypeError extends RopewayError {
  constructor(type: string, known: readonly string[]) {
    super("UNKNOWN_TASK_TYPE", `task type ${show(type)} is unknown; known: ${known.join(", ")}`, {
      details: { type, known },
    });
  }
}

/** A secret must be stored or read, and no secret key is set. */
export class SecretKeyMissingError extends RopewayError {
  constructor() {
    super(
      "SECRET_KEY_MISSING",
      "the task has a password, but ROPEWAY_SECRET_KEY is not set; set it to the same 32 random bytes (base64) on every portal and node",
    );
  }
}

/** A secret cannot be decrypted: it was encrypted with another key, or was changed. */
export class SecretUnreadableError extends RopewayError {
  constructor(keyId: string) {
    super(
      "SECRET_UNREADABLE",
      `a secret encrypted with key ${keyId} cannot be decrypted: add that key to ROPEWAY_SECRET_KEY`,
      {
        details: { keyId },
      },
    );
  }
}

/** There is no role with that name. */
export class UnknownRoleError extends RopewayError {
  constructor(role: string) {
    super("UNKNOWN_ROLE", `role ${show(role)} not found`, { details: { role } });
  }
}

/** There is no API token with that id. */
export class UnknownTokenError extends RopewayError {
  constructor(id: string) {
    super("UNKNOWN_TOKEN", `token ${show(id)} not found`, { details: { id } });
  }
}

/** There is no alert with that id. */
export class UnknownAlertError extends RopewayError {
  constructor(id: string) {
    super("UNKNOWN_ALERT", `alert ${show(id)} not found`, { details: { id } });
  }
}

/** A user or role of that name exists already. */
export class AlreadyExistsError extends RopewayError {
  constructor(what: string, name: string) {
    super("ALREADY_EXISTS", `the ${what} ${show(name)} exists already`, {
      details: { what, name },
    });
  }
}

/** It cannot be removed or changed: a built-in role, the last admin, a role in use, a node that is online, a move to a drained node. */
export class ProtectedError extends RopewayError {
  constructor(what: string, reason: string) {
    super("PROTECTED", `${what} cannot be changed: ${reason}`, { details: { what, reason } });
  }
}
