/** What the etcd store adds to the common rules: members, TLS, users, half-open connections. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttp2Server, type IncomingHttpHeaders } from "node:http2";
import { type AddressInfo, createServer, connect as openSocket, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { silentLogger } from "@ropeway/core";
import { type Etcd, eventually, freePort, startEtcd, startProxy } from "@ropeway/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeCertificate } from "../../testkit/src/certificate.ts";
import { getMany } from "../src/record.ts";
import { openEtcdStore } from "../src/store/etcd/etcd-store.ts";
import * as messages from "../src/store/etcd/messages.ts";
import { Transport } from "../src/store/etcd/transport.ts";
import { collect } from "./store.conformance.ts";

const logger = silentLogger;

describe("the etcd messages", () => {
  it("have the fields and numbers of the .proto file", () => {
    const proto = readFileSync(new URL("../proto/etcd.proto", import.meta.url), "utf8");
    const clean = proto.replace(/\/\/.*/g, "").replace(/oneof \w+ \{([^}]*)\}/g, "$1");
    const found = [...clean.matchAll(/message (\w+) \{([^}]*)\}/g)];
    expect(found.length).toBe(Object.keys(messages).length);
    for (const [, name = "", body = ""] of found) {
      const expected = [...body.matchAll(/(\w+) (\w+) = (\d+);/g)].map(
        ([, , field = "", number]) => [
          /^[A-Z]+$/.test(field)
            ? field.toLowerCase()
            : field.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
          Number(number),
        ],
      );
      const type = (messages as unknown as Record<string, { fields: object }>)[name];
      const actual = Object.entries(type?.fields ?? {}).map(([field, { number }]) => [
        field,
        number,
      ]);
      expect([name, actual]).toEqual([name, expected]);
    }
  });

  it("survive any 64-bit number and skip unknown fields", () => {
    const { KeyValue, PutResponse } = messages;
    for (const lease of [0n, 1n, -1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      expect(KeyValue.decode(KeyValue.encode({ key: "k", lease })).lease).toBe(lease);
    }
    const bytes = KeyValue.encode({ key: "k", value: "v", version: 3n });
    expect(PutResponse.decode(KeyValue.encode({ version: 3n, value: "v" }))).toEqual({
      header: undefined,
    });
    for (let cut = 1; cut < bytes.length; cut++) {
      try {
        KeyValue.decode(bytes.subarray(0, cut));
      } catch (error) {
        expect(error).toMatchObject({ code: "STORE_PROTOCOL" });
      }
    }
  });
});

describe("one etcd", () => {
  let etcd: Etcd;
  beforeAll(async () => {
    etcd = await startEtcd();
  });
  afterAll(() => etcd.close());

  it("repeats a transaction that only reads when the connection was lost meanwhile, and no other", async () => {
    await using proxy = await startProxy(etcd.first);
    const store = await openEtcdStore({ endpoints: [`http://127.0.0.1:${proxy.port}`], logger });
    await store.put("/reads/a", "1");
    proxy.halfOpen();
    const reading = getMany(store, ["/reads/a", "/reads/b"]);
    const writing = store.txn({ do: [{ op: "put", key: "/reads/a", value: "2" }] });
    const refused = expect(writing).rejects.toMatchObject({ maybeApplied: true });
    reading.catch(() => {});
    await setImmediate(); // both have left, and their responses do not come
    proxy.cut();
    await proxy.heal();
    await refused;
    expect((await reading).map((entry) => entry?.value)).toEqual(["1", undefined]);
    await store.close();
  });

  it("loses no event when the connection is cut again and again while history is replayed", async () => {
    const proxy = await startProxy(etcd.first);
    const direct = await openEtcdStore({ endpoints: etcd.urls, logger });
    const from = (await direct.put("/cut/start", "")) + 1;
    for (let n = 0; n < 3_000; n += 100) {
      await Promise.all(
        Array.from({ length: 100 }, (_, i) => direct.put(`/cut/${n + i}`, "v".repeat(200))),
      );
    }
    const store = await openEtcdStore({ endpoints: [`http://127.0.0.1:${proxy.port}`], logger });
    proxy.throttle(400_000);
    const watch = collect(store, "/cut/", from);
    for (let cuts = 0; cuts < 2; cuts++) {
      const had = watch.events.length;
      await eventually(() => expect(watch.events.length).toBeGreaterThan(had), {
        withinMs: 10_000,
      });
      proxy.cut();
      await proxy.heal();
      proxy.throttle(400_000);
    }
    await eventually(() => expect(watch.events.length).toBe(3_000), { withinMs: 30_000 });
    expect(new Set(watch.events.map(({ entry }) => entry.modRevision)).size).toBe(3_000);
    await watch.stop();
    await store.close();
    await direct.close();
    await proxy.close();
  }, 90_000);

  it("renews a lease with another member before it gives up a write with the one that hangs", async () => {
    await using proxy = await startProxy(etcd.first);
    const endpoints = [`http://127.0.0.1:${proxy.port}`, ...etcd.urls];
    const store = await openEtcdStore({ endpoints, logger, tryMs: 600_000, timeoutMs: 600_000 });
    const { id } = await store.grant(60_000);
    proxy.halfOpen();
    const ended: string[] = [];
    const lost = () => ended.push("a write was lost");
    const written = store.put("/renewed/a", "1").then(() => ended.push("written"), lost);
    const renewed = store.keepAlive(id).then((ttlMs) => ended.push(`renewed for ${ttlMs}`));
    await Promise.all([written, renewed]);
    expect(ended).toEqual(["renewed for 60000", "a write was lost"]);
    await store.close();
  });

  it("notices a connection that is only half there, and goes on", async () => {
    // Forwards until told to swallow everything, like a router that lost its state.
    let swallow = false;
    const sockets = new Set<Socket>();
    const hole = createServer((client) => {
      swallow = false; // only the old connection is dead
      const server = openSocket(etcd.first.port, "127.0.0.1");
      const dead = { yes: false };
      sockets.add(client).add(server);
      client.on("data", (data) => {
        if (swallow) dead.yes = true;
        if (!dead.yes) server.write(data);
      });
      server.on("data", (data) => {
        if (swallow) dead.yes = true;
        if (!dead.yes) client.write(data);
      });
      for (const socket of [client, server]) {
        socket.on("error", () => {});
        socket.on("close", () => {
          client.destroy();
          server.destroy();
        });
      }
    });
    const port = await freePort();
    await new Promise<void>((resolve) => hole.listen(port, "127.0.0.1", resolve));
    const store = await openEtcdStore({ endpoints: [`http://127.0.0.1:${port}`], logger });
    const direct = await openEtcdStore({ endpoints: etcd.urls, logger });
    const watch = collect(store, "/half/", await direct.put("/half/a", "1"));
    await eventually(() => expect(watch.events).toHaveLength(1));
    swallow = true;
    await direct.put("/half/a", "2");
    await eventually(() => expect(watch.events).toHaveLength(2), { withinMs: 18_000 });
    await watch.stop();
    await store.close();
    await direct.close();
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => hole.close(resolve));
  }, 40_000);

  it("says that a write may have been made when its response is lost", async () => {
    const proxy = await startProxy(etcd.first);
    const endpoints = [`http://127.0.0.1:${proxy.port}`];
    const store = await openEtcdStore({ endpoints, logger, tryMs: 500, timeoutMs: 1_000 });
    await store.put("/lost/a", "1");
    proxy.delay(2_000);
    await expect(store.put("/lost/a", "2")).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      maybeApplied: true,
    });
    proxy.refuse();
    await expect(store.put("/lost/a", "3")).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      maybeApplied: false,
    });
    await store.close();
    await proxy.close();
  });

  it("speaks TLS and refuses a certificate that it does not know", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ropeway-tls-"));
    const certificate = await makeCertificate(folder);
    const pem = readFileSync(certificate.certFile, "utf8");
    const sockets = new Set<Socket>();
    const front = createTlsServer(
      { cert: pem, key: readFileSync(certificate.keyFile, "utf8"), ALPNProtocols: ["h2"] },
      (client) => {
        const server = openSocket(etcd.first.port, "127.0.0.1");
        sockets.add(client).add(server);
        client.pipe(server).pipe(client);
        for (const socket of [client, server]) socket.on("error", () => {});
      },
    );
    front.on("tlsClientError", () => {});
    const port = await freePort();
    await new Promise<void>((resolve) => front.listen(port, "127.0.0.1", resolve));
    const endpoints = [`https://127.0.0.1:${port}`];
    const store = await openEtcdStore({ endpoints, tls: { ca: pem }, logger });
    await store.put("/tls/a", "secret");
    expect((await store.get("/tls/a"))?.value).toBe("secret");
    await store.close();
    await expect(
      openEtcdStore({ endpoints, tls: {}, logger, timeoutMs: 500 }),
    ).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => front.close(resolve));
    rmSync(folder, { recursive: true });
  });
});

describe("an etcd with users", () => {
  it("logs in, logs in again when the token is forgotten, and names what is forbidden", async () => {
    const etcd = await startEtcd();
    const { first } = etcd;
    const base64 = (text: string) => Buffer.from(text).toString("base64");
    await first.call("/v3/auth/user/add", { name: "root", password: "r00t" });
    await first.call("/v3/auth/role/add", { name: "root" });
    await first.call("/v3/auth/user/grant", { user: "root", role: "root" });
    await first.call("/v3/auth/user/add", { name: "node", password: "n0de" });
    await first.call("/v3/auth/role/add", { name: "tasks" });
    await first.call("/v3/auth/role/grant", {
      name: "tasks",
      perm: { permType: "READWRITE", key: base64("/tasks/"), range_end: base64("/tasks0") },
    });
    await first.call("/v3/auth/user/grant", { user: "node", role: "tasks" });
    await first.call("/v3/auth/enable");
    const user = { name: "node", password: "n0de" };
    const [store, reader] = await Promise.all(
      [1, 2].map(() => openEtcdStore({ endpoints: etcd.urls, user, logger })),
    );
    if (store === undefined || reader === undefined) throw new Error("no store");
    const revision = await store.put("/tasks/a", "1");
    await expect(store.put("/nodes/a", "1")).rejects.toMatchObject({ code: "STORE_REFUSED" });
    const denied = collect(reader, "/nodes/", revision);
    await expect(denied.done).rejects.toMatchObject({ code: "STORE_REFUSED" });
    // Only watches: no other call logs in for it.
    const watch = collect(reader, "/tasks/", revision);
    await eventually(() => expect(watch.events).toHaveLength(1));
    await first.kill9(); // simple tokens live in memory
    await first.start();
    await eventually(() => store.put("/tasks/a", "2"), { withinMs: 15_000 });
    await eventually(() => expect(watch.events.length).toBeGreaterThanOrEqual(2), {
      withinMs: 15_000,
    });
    await watch.stop();
    await Promise.all([store.close(), reader.close()]);
    const wrong = openEtcdStore({
      endpoints: etcd.urls,
      user: { name: "node", password: "no" },
      logger,
    }).then((opened) => opened.get("/tasks/a").finally(() => opened.close()));
    const refusal = await wrong.catch((error) => error);
    expect(refusal).toMatchObject({ code: "STORE_REFUSED" });
    expect(String(refusal)).not.toContain("n0de");
    await etcd.close();
  }, 60_000);
});

describe("a member that is cut off from the others", () => {
  it("is asked to end the streams of watches, instead of keeping them silent", async () => {
    const server = createHttp2Server();
    const asked = new Promise<IncomingHttpHeaders>((resolve) => {
      server.on("stream", (stream, headers) => {
        stream.on("error", () => {});
        resolve(headers);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const endpoints = [`http://127.0.0.1:${port}`];
    const transport = new Transport({ endpoints, tryMs: 5_000, timeoutMs: 5_000, logger });
    await transport.stream("/etcdserverpb.Watch/Watch", { message: () => {}, ended: () => {} });
    expect(await asked).toMatchObject({ hasleader: "true" });
    transport.close();
    await new Promise((resolve) => server.close(resolve));
  });
});

describe("three members", () => {
  it("lose no acknowledged write and no event when the leader is killed", async () => {
    const etcd = await startEtcd({ members: 3 });
    const store = await openEtcdStore({ endpoints: etcd.urls, logger });
    const watch = collect(store, "/ha/", await store.put("/ha/start", ""));
    const acknowledged: string[] = [];
    let stop = false;
    const writing = (async () => {
      for (let n = 0; !stop; n++) {
        try {
          await store.put(`/ha/${n}`, "v");
          acknowledged.push(`/ha/${n}`);
        } catch (error) {
          expect(error).toMatchObject({ code: "STORE_UNAVAILABLE" });
        }
      }
    })();
    await eventually(() => expect(acknowledged.length).toBeGreaterThan(100));
    await (await etcd.leader()).kill9();
    const before = acknowledged.length;
    await eventually(() => expect(acknowledged.length).toBeGreaterThan(before + 100), {
      withinMs: 20_000,
    });
    stop = true;
    await writing;
    await eventually(
      () => {
        const seen = new Set(watch.events.map(({ entry }) => entry.key));
        expect(acknowledged.filter((key) => !seen.has(key))).toEqual([]);
      },
      { withinMs: 15_000 },
    );
    await watch.stop();
    await store.close();
    await etcd.close();
  }, 90_000);
});
