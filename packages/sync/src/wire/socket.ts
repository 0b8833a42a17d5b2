/** Opens a TCP, TLS or Unix socket within a time limit. */
import { connect as connectPlain, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Address, ConnectFailedError, type Endpoint } from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";

/** Where to connect, and the time limit. */
export interface SocketPlan {
  readonly address: Address;
  readonly tls: Endpoint["tls"];
  readonly connectTimeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** A connected socket. Rejects with ConnectFailedError, also when the signal aborts. */
export function openSocket(plan: SocketPlan): Promise<Socket> {
  const { address, tls, connectTimeoutMs, signal } = plan;
  const where = showAddress(address);
  return new Promise((resolve, reject) => {
    const socket =
      tls === undefined
        ? connectPlain(address)
        : connectTls({ ...address, ...serverName(address), ...(tls === true ? {} : tls) });
    const fail = (cause: unknown) => {
      done();
      socket.destroy();
      reject(new ConnectFailedError(where, cause));
    };
    const onError = (error: Error) => fail(error);
    const onAbort = () => fail(signal?.reason ?? new Error("aborted"));
    const timer = setTimeout(
      () => fail(new Error(`no connection within ${connectTimeoutMs} ms`)),
      connectTimeoutMs,
    );
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      socket.off("error", onError);
    };
    socket.on("error", onError);
    socket.once(tls === undefined ? "connect" : "secureConnect", () => {
      done();
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 15_000);
      resolve(socket);
    });
    if (signal?.aborted) onAbort();
    else signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** TLS uses a name for SNI, which must not be an IP address. */
function serverName(address: Address): { servername?: string } {
  if (!("host" in address) || /^[\d.]+$|:/.test(address.host)) return {};
  return { servername: address.host };
}
