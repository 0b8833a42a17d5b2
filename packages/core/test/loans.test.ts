import { expect, test } from "vitest";
import { type Lent, Loans } from "../src/loans.ts";

/** A connection that only notes what is asked of it. */
function lentBy(asked: string[]): (onClosed: () => void) => Lent {
  return (onClosed) => ({
    opened: async () => asked.push("opened"),
    relocate: () => asked.push("relocate"),
    close: async () => {
      asked.push("close");
      onClosed();
    },
  });
}

test("what was given back is forgotten, the rest is closed with its Redis", async () => {
  const loans = new Loans("here");
  const [first, second]: [string[], string[]] = [[], []];
  const lent = await loans.lend(lentBy(first), 1);
  await loans.lend(lentBy(second), 1);
  await lent.close();
  loans.relocate(new Error("moved"));
  await loans.close();
  expect(first).toEqual(["opened", "close"]);
  expect(second).toEqual(["opened", "relocate", "close"]);
  await expect(loans.lend(lentBy([]), 1)).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
});
