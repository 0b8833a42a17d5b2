/**
 * The files of a TLS connection to Redis: trusted authorities, certificate and key. All files are checked before the
 * first connection, whose own errors would name neither the file nor the setting.
 */
import { X509Certificate } from "node:crypto";
import { type ConnectionOptions, createSecureContext } from "node:tls";
import type { Endpoint } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { SettingError, UnreadableFileError } from "./errors.ts";
import { fileText } from "./file-text.ts";
import { type LoadedSettings, showSetting } from "./settings/load.ts";

type FileKey = "redis.caFile" | "redis.certFile" | "redis.keyFile";

/** The endpoint with the TLS settings; unchanged if there are none. */
export function withTls(endpoint: Endpoint, settings: LoadedSettings): Endpoint {
  const { values } = settings;
  const given = (["redis.caFile", "redis.certFile", "redis.keyFile"] as const).filter(
    (key) => values[key] !== undefined,
  );
  const [first] = given;
  if (first === undefined) return endpoint;
  if (endpoint.tls === undefined) {
    // A user who configures certificates does not want a connection without TLS.
    throw wrong(first, settings, "left out unless redis.url begins with rediss");
  }
  for (const [one, other] of [
    ["redis.certFile", "redis.keyFile"],
    ["redis.keyFile", "redis.certFile"],
  ] as const) {
    if (given.includes(one) && !given.includes(other)) {
      throw wrong(one, settings, `set together with ${other}`);
    }
  }
  return { ...endpoint, tls: readFiles(settings) };
}

function readFiles(settings: LoadedSettings): ConnectionOptions {
  const ca = certificate("redis.caFile", settings);
  const cert = certificate("redis.certFile", settings);
  const key = textOf("redis.keyFile", settings);
  const options = {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    // The certificates were read, so the key is wrong: it is not a key, or it belongs to another certificate.
    const why = `it is not the key of redis.certFile in PEM (${reasonOf(error)})`;
    throw new UnreadableFileError(nameOf("redis.keyFile", settings), why, error);
  }
  return options;
}

function certificate(key: FileKey, settings: LoadedSettings): string | undefined {
  const text = textOf(key, settings);
  if (text === undefined) return undefined;
  try {
    new X509Certificate(text);
    return text;
  } catch (error) {
    const why = "it holds no certificate in PEM";
    throw new UnreadableFileError(nameOf(key, settings), why, error);
  }
}

function textOf(key: FileKey, settings: LoadedSettings): string | undefined {
  const path = settings.values[key];
  return path === undefined ? undefined : fileText(path, nameOf(key, settings));
}

/** The file as a message names it. */
function nameOf(key: FileKey, { values, origins }: LoadedSettings): string {
  return `${values[key]} (${key} from ${origins[key].where})`;
}

function wrong(key: FileKey, { values, origins }: LoadedSettings, allowed: string): SettingError {
  const value = showSetting(key, values[key]);
  return new SettingError({ key, value, allowed, where: origins[key].where });
}
