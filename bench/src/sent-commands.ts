/**
 * Counts the commands that clients send. INFO also counts commands inside scripts, so this uses MONITOR.
 * MONITOR costs Redis a line per command, so only scenarios about cost use it.
 *
 * It reads the lines itself. A client library can receive the first line together with the reply to MONITOR, before it
 * expects one, and then takes it for the reply to a command that it never sent.
 */
import { once } from "node:events";
import { connect as open, type Socket } from "node:net";

const MARK = "ropeway-bench-mark";
/** `+1700000000.123456 [0 127.0.0.1:50000] "get" "key"`; the source of commands inside scripts is `lua`. */
const LINE = /^\+[\d.]+ \[\d+ (\S+)\] "([^"]+)"/;

/** Counts the commands of all other clients. */
export class SentCommands {
  readonly #asking: Socket;
  readonly #monitor: Socket;
  #failure: Error | undefined;
  #rest = "";
  #count = 0;
  #marks = 0;
  #onMark: () => void = () => {};

  /** Starts counting. */
  static async start(url: string): Promise<SentCommands> {
    const counting = new SentCommands(await socketTo(url), await socketTo(url));
    const replied = once(counting.#monitor, "data");
    counting.#monitor.write("MONITOR\r\n");
    await replied;
    return counting;
  }

  private constructor(asking: Socket, monitor: Socket) {
    this.#asking = asking;
    this.#monitor = monitor;
    asking.resume();
    monitor.setEncoding("latin1").on("data", (text: string) => this.#read(text));
    for (const socket of [asking, monitor]) {
      socket.on("error", (error) => this.#fail(error));
      socket.on("close", () => this.#fail(new Error("Redis has closed the connection of MONITOR")));
    }
  }

  /** The number of commands so far, including all that Redis executed before this call. */
  async count(): Promise<number> {
    const marks = this.#marks + 1;
    await new Promise<void>((resolve, reject) => {
      this.#onMark = () => {
        if (this.#failure !== undefined) reject(this.#failure);
        else if (this.#marks >= marks) resolve();
      };
      this.#onMark();
      this.#asking.write(`ECHO ${MARK}\r\n`);
    });
    return this.#count;
  }

  close(): void {
    this.#monitor.destroy();
    this.#asking.destroy();
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split("\r\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, source, name] = LINE.exec(line) ?? [];
      if (name === undefined || source === "lua") continue;
      const command = name.toLowerCase();
      if (command === "echo" && line.endsWith(`"${MARK}"`)) {
        this.#marks++;
        this.#onMark();
      } else if (command !== "info") this.#count++; // the meter sends INFO
    }
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#onMark();
  }
}

async function socketTo(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = open({ host: hostname, port: Number(port) });
  await once(socket, "connect");
  return socket;
}
