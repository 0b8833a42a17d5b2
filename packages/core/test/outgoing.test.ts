import { once } from "node:events";
import { type AddressInfo, createServer, connect as openSocket, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import { expect, test } from "vitest";
import { joinPieces, OUTGOING } from "../src/outgoing.ts";

const utf8 = (chunk: string) => ({ chunk, encoding: "utf8" }) as const;

test("small strings are joined, large ones and bytes stay as they are", () => {
  const large = "x".repeat(2000);
  const bytes = { chunk: Buffer.from("bytes"), encoding: "buffer" as BufferEncoding };
  expect(joinPieces([utf8("a"), utf8("b"), bytes, utf8("c"), utf8(large), utf8("d")])).toEqual([
    utf8("ab"),
    bytes,
    utf8("c"),
    utf8(large),
    utf8("d"),
  ]);
  expect(joinPieces([])).toEqual([]);
});

test("joined strings end before they get huge", () => {
  const pieces = Array.from({ length: 100 }, () => utf8("y".repeat(1000)));
  const joined = joinPieces(pieces);
  expect(joined).toHaveLength(7);
  expect(joined.map(({ chunk }) => chunk).join("")).toBe("y".repeat(100_000));
});

test("a string in another encoding is not joined with its neighbours", () => {
  const hex = { chunk: "00ff", encoding: "hex" } as const;
  expect(joinPieces([utf8("a"), hex, utf8("b")])).toEqual([utf8("a"), hex, utf8("b")]);
});

test("whatever is written in one tick arrives byte for byte and in order", async () => {
  const piece = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string({ unit: "binary", minLength: 900, maxLength: 1200 }),
    fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 40 }), async (pieces) => {
      const sent = Buffer.concat(pieces.map((one) => Buffer.from(one as string)));
      expect(await received(pieces)).toEqual(sent);
    }),
    { numRuns: 30 },
  );
});

test("sockets take the options", () => {
  const socket = openSocket({ port: 1, host: "127.0.0.1", ...OUTGOING });
  socket.on("error", () => {}).destroy();
  expect(socket.writableHighWaterMark).toBe(OUTGOING.writableHighWaterMark);
  expect(socket._writev).toBe(OUTGOING.writev);
});

/** What the other end of a connection gets when all pieces are written in one tick. */
async function received(pieces: readonly (string | Buffer)[]): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const socket = openSocket({ port, host: "127.0.0.1", ...OUTGOING });
  const [other] = await accepted;
  const bytes = buffer(other);
  socket.cork();
  for (const piece of pieces) socket.write(piece);
  socket.uncork();
  socket.end();
  const got = await bytes;
  other.destroy();
  server.close();
  return got;
}
