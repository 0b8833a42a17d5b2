/** Errors of group chat. */
import { RopewayError } from "@ropeway/core";

/** There is no room with this id. */
export class RoomNotFoundError extends RopewayError {
  constructor(room: string) {
    super("ROOM_NOT_FOUND", `room ${JSON.stringify(room)} not found`, { details: { room } });
  }
}

/** A room with this id exists already. */
export class RoomExistsError extends RopewayError {
  constructor(room: string) {
    super("ROOM_EXISTS", `room ${JSON.stringify(room)} exists already`, { details: { room } });
  }
}

/** The user is not a member of the room. */
export class NotAMemberError extends RopewayError {
  constructor(room: string, user: string) {
    super(
      "NOT_A_MEMBER",
      `user ${JSON.stringify(user)} is not a member of room ${JSON.stringify(room)}`,
      { details: { room, user } },
    );
  }
}
