// One of many that want the same home: says whether it got it, and keeps it until told.
import { homeAt } from "../../src/up/home.ts";
import { HomeClaim } from "../../src/up/home-claim.ts";

const [path = ""] = process.argv.slice(2);
process.stdout.write("ready\n");
process.stdin.once("data", async () => {
  try {
    await HomeClaim.take(homeAt(path));
    process.stdout.write("mine\n");
    process.stdin.once("data", () => process.exit());
  } catch (error) {
    process.stdout.write(`${(error as { code?: string }).code}\n`);
    process.exit();
  }
});
