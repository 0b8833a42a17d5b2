/**
 * A file that a task writes, with its checkpoint beside it. The checkpoint has the length of the file. Bytes that a
 * killed run wrote after it are cut off, and the next run continues at the right byte.
 *
 *   dump.aof.part             during the full synchronisation
 *   dump.aof                  after it: this name never has an incomplete snapshot
 *   dump.aof.checkpoint       JSON: task, bytes, epoch, phase, replid, offset, db; replaced as a whole
 */
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { InvalidOptionError, LeaseLostError, RopewayError } from "@ropeway/core";
import type { Checkpoint } from "../checkpoint.ts";
import { TargetFileError } from "../errors.ts";

/** The content of the checkpoint file. */
interface Saved extends Checkpoint {
  readonly task: string;
  /** How many bytes of the file belong to the checkpoint. */
  readonly bytes: number;
}

/** The path of the file, and the task that writes it. */
export interface TargetFileOptions {
  readonly path: string;
  readonly task: string;
  /** Replace a file that the task did not write. */
  readonly overwrite: boolean;
}

/** A file that a task writes. */
export class TargetFile {
  readonly #options: TargetFileOptions;
  #file: FileHandle | undefined;
  #bytes = 0;
  /** Appends and checkpoints happen one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: TargetFileOptions) {
    this.#options = options;
  }

  get path(): string {
    return this.#options.path;
  }

  /** Raises the epoch. Throws InvalidOptionError if another task or program wrote the file. */
  claim(epoch: number | undefined): Promise<Checkpoint> {
    return this.#next(() => this.#claim(epoch));
  }

  async #claim(epoch: number | undefined): Promise<Checkpoint> {
    const { path, task, overwrite } = this.#options;
    const saved = await this.#saved();
    const size = await sizeOf(path);
    if (saved?.task !== task && size !== undefined && !overwrite) {
      const allowed = "a new file. Delete the file or set restart (--restart) to overwrite it";
      throw new InvalidOptionError("to", `file:${path}`, allowed);
    }
    const known = saved?.task === task ? saved : undefined;
    if (epoch !== undefined && (known?.epoch ?? 0) > epoch) {
      throw new LeaseLostError(`sync task ${task}`, epoch);
    }
    // A file that is too short lost its end when the machine crashed. It is written again from the start.
    const whole = known?.phase === "stream" && size !== undefined && size >= known.bytes;
    const claimed: Checkpoint = {
      ...(known ?? { replid: "?", offset: -1, db: 0 }),
      phase: whole ? "stream" : "load",
      owned: true,
      epoch: epoch ?? (known?.epoch ?? 0) + 1,
    };
    this.#bytes = whole ? (known?.bytes ?? 0) : 0;
    if (whole) {
      this.#file = await open(path, "r+");
      await this.#file.truncate(this.#bytes);
    }
    await this.#save(claimed);
    return claimed;
  }

  /** Starts the file from the beginning (load), or gives it its final name (stream, done). */
  enter(checkpoint: Checkpoint): Promise<void> {
    return this.#next(async () => {
      await this.#check(checkpoint.epoch);
      const { path } = this.#options;
      if (checkpoint.phase === "load") {
        await this.#file?.close();
        // A new file under the same name, because an older run may still write to the one it opened.
        await rm(`${path}.part`, { force: true });
        this.#file = await open(`${path}.part`, "w");
        this.#bytes = 0;
        await this.#save(checkpoint);
        return;
      }
      // Without a full synchronisation (mode increment), no file is open yet.
      const opened = this.#file !== undefined;
      this.#file ??= await open(path, "w");
      await this.#file.sync();
      if (opened && (await sizeOf(`${path}.part`)) !== undefined) {
        await rename(`${path}.part`, path);
      }
      if (checkpoint.phase === "done") await rm(this.#checkpointPath, { force: true });
      else await this.#save(checkpoint);
    });
  }

  /** Appends, and moves the checkpoint if there is one. */
  append(pieces: readonly Buffer[], checkpoint?: Checkpoint): Promise<void> {
    return this.#next(async () => {
      if (checkpoint !== undefined) await this.#check(checkpoint.epoch);
      for (const piece of pieces) {
        for (let done = 0; done < piece.length; ) {
          const { bytesWritten } = await (this.#file as FileHandle).write(
            piece,
            done,
            piece.length - done,
            this.#bytes,
          );
          done += bytesWritten;
          this.#bytes += bytesWritten;
        }
      }
      if (checkpoint !== undefined) await this.#save(checkpoint);
    });
  }

  async close(): Promise<void> {
    await this.#turn.catch(() => {});
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  get #checkpointPath(): string {
    return `${this.#options.path}.checkpoint`;
  }

  /** Does the work after earlier work. Throws TargetFileError for errors of the file system. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work).catch((error: unknown) => {
      throw error instanceof RopewayError ? error : new TargetFileError(this.path, error);
    });
    this.#turn = done.catch(() => {});
    return done;
  }

  /** Throws LeaseLostError if a newer run has claimed the file. */
  async #check(epoch: number): Promise<void> {
    const saved = await this.#saved();
    if (saved !== undefined && saved.epoch <= epoch) return;
    throw new LeaseLostError(`sync task ${this.#options.task}`, epoch);
  }

  async #saved(): Promise<Saved | undefined> {
    try {
      return JSON.parse(await readFile(this.#checkpointPath, "utf8")) as Saved;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  async #save(checkpoint: Checkpoint): Promise<void> {
    const { task } = this.#options;
    const saved: Saved = { ...checkpoint, task, bytes: this.#bytes };
    const draft = `${this.#checkpointPath}.new`;
    await writeFile(draft, `${JSON.stringify(saved)}\n`);
    await rename(draft, this.#checkpointPath);
  }
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
