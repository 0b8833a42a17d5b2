/** A shop: declared errors, two versions side by side, metadata, and sessions that stay on one node. */
import { connect } from "@ropeway/core";
import { ApplicationError, createClient, defineService, RpcServer } from "@ropeway/rpc";
import { z } from "zod";

const redis = await connect(process.env.REDIS_URL);
const ns = "{shop-example}";

const errors = { OUT_OF_STOCK: z.object({ left: z.number() }) };
const order = { input: z.object({ item: z.string(), count: z.number() }), output: z.string() };
const ordersV1 = defineService("orders", { place: order }, { errors });
const ordersV2 = defineService("orders", { place: order }, { errors, version: "2" });
const cart = defineService("cart", {
  add: { input: z.object({ item: z.string() }), output: z.array(z.string()) },
});

/** One node of the shop. The carts are in its memory, so the calls of a customer have to come here. */
async function open(node: string): Promise<RpcServer> {
  const carts = new Map<string, string[]>();
  const shop = new RpcServer(redis, { ns, node, group: "shop" });
  shop.add(ordersV1, { place: ({ item }) => `old order of ${item}` });
  shop.add(ordersV2, {
    place: ({ item, count }, { metadata }) => {
      if (count > 3) throw new ordersV2.errors.OUT_OF_STOCK({ left: 3 });
      return `${metadata.customer} ordered ${count} x ${item}`;
    },
  });
  shop.add(cart, {
    add: ({ item }, { session }) => {
      const name = String(session?.client);
      const items = [...(carts.get(name) ?? []), item];
      carts.set(name, items);
      return items;
    },
  });
  shop.use(async ({ metadata }, next) => {
    if (metadata.customer === undefined) throw new ApplicationError(401, "who are you?");
    return next();
  });
  return shop.start();
}

const nodes = [await open("n1"), await open("n2")];
const client = await createClient(redis, { ns });

await client
  .service(ordersV2)
  .place({ item: "lamp", count: 1 })
  .catch((error) => console.log(error.message));

client.use((request, next) =>
  next({ ...request, options: { ...request.options, metadata: { customer: "ann" } } }),
);
console.log(await client.service(ordersV1).place({ item: "lamp", count: 1 }));
console.log(await client.service(ordersV2).place({ item: "lamp", count: 2 }));
try {
  await client.service(ordersV2).place({ item: "lamp", count: 5 });
} catch (error) {
  if (error instanceof ordersV2.errors.OUT_OF_STOCK) console.log(`only ${error.data.left} left`);
}

const ann = client.session("shop", "ann").service(cart);
await ann.add({ item: "lamp" });
console.log((await ann.add({ item: "chair" })).join(", "));

await client.close();
for (const node of nodes) await node.close();
await redis.close();
