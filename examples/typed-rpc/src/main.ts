/** Serves the library and calls it. */
import { connect } from "@ropeway/core";
import { createClient, serve } from "@ropeway/rpc";
import { library } from "./library.ts";

const redis = await connect(process.env.REDIS_URL);
const ns = "{library-example}";

const server = await serve(
  redis,
  library,
  {
    lend: ({ title, days }) => ({ due: `${title}: in ${days} days` }),
    index: async ({ books }, context) => {
      for (let done = 1; done <= books; done++) context.progress(done / books, `book ${done}`);
      return `${books} books`;
    },
    async *read({ title }) {
      for (let page = 1; page <= 3; page++) yield `${title}, page ${page}`;
    },
    async *translate({ to }, { incoming }) {
      for await (const sentence of incoming) {
        yield to === "loud" ? sentence.toUpperCase() : sentence.toLowerCase();
      }
    },
  },
  { ns },
);

const client = await createClient(redis, { ns });
const books = client.service(library);

console.log((await books.lend({ title: "Emma" })).due);

const onProgress = ({ percent }: { percent: number }) => console.log(`${percent * 100} %`);
console.log(await books.index({ books: 2 }, { onProgress }));

for await (const page of books.read({ title: "Emma" })) console.log(page);

async function* sentences() {
  yield "Good morning";
  yield "Good night";
}
for await (const sentence of books.translate({ to: "loud" }, sentences())) console.log(sentence);

// @ts-expect-error days is a number: the compiler says so, and so does the service
await books.lend({ title: "Emma", days: "many" }).catch((error) => console.log(error.code));

await client.close();
await server.close();
await redis.close();
