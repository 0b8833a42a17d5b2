import { expect, test } from "vitest";
import { refuseOffLimits } from "../../src/wire/off-limits.ts";

/** A server with these replies to EXISTS, by database. */
function serverOf(keyspace: string, replies: Readonly<Record<string, string>>) {
  let db = "0";
  return {
    keyspace: async () => keyspace,
    all: async (commands: readonly (readonly string[])[]) =>
      commands.map(([name, argument = ""]) => {
        if (name === "EXISTS") return replies[db] ?? ":0";
        db = argument;
        return "+OK";
      }),
  };
}

test("finds a key in any database that has keys, or in the usual ones if INFO is refused", async () => {
  const refused = { code: "INVALID_OPTION" };
  const used = "# Keyspace\r\ndb0:keys=1\r\ndb12:keys=3\r\n";
  const inTwelve = serverOf(used, { 12: ":1" });
  await expect(refuseOffLimits("it", ["mark"], inTwelve)).rejects.toMatchObject(refused);
  const hidden = serverOf("-NOPERM no INFO for you", { 9: ":1" });
  await expect(refuseOffLimits("it", ["mark"], hidden)).rejects.toMatchObject(refused);
  await refuseOffLimits("it", ["mark"], serverOf(used, {}));
  await refuseOffLimits("it", ["mark"], serverOf(used, { 0: "-MOVED 1 127.0.0.1:1" }));
});

test("does not admit a server that is still loading its keys", async () => {
  const loading = serverOf("# Keyspace\r\n", { 0: "-LOADING Redis is loading the dataset" });
  const lost = { code: "CONNECTION_LOST", message: expect.stringContaining("LOADING") };
  await expect(refuseOffLimits("it", ["mark"], loading)).rejects.toMatchObject(lost);
});
