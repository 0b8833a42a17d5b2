import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { TestkitError } from "./errors.ts";

/** A self-signed certificate for 127.0.0.1 and localhost. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** The `ca` option of a client that trusts it. */
  readonly ca: string;
}

/** Makes a certificate in `folder` with the machine's openssl. */
export async function makeCertificate(folder: string): Promise<Certificate> {
  const certFile = join(folder, "server.crt");
  const keyFile = join(folder, "server.key");
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
  const files = ["-keyout", keyFile, "-out", certFile];
  try {
    await promisify(execFile)("openssl", [
      "req",
      "-x509",
      "-days",
      "2",
      ...curve,
      ...names,
      ...files,
    ]);
  } catch (cause) {
    const why = (cause as Error).message;
    throw new TestkitError("NO_PROGRAM", `openssl failed to create a certificate: ${why}`, {
      cause,
    });
  }
  return { certFile, keyFile, ca: await readFile(certFile, "utf8") };
}
