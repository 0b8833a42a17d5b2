/**
 * Passwords inside task configurations. Before a task is stored, every secret is taken out of its
 * configuration and encrypted; what is stored and returned in its place has no password. Only a node
 * that is about to run the task puts them back together.
 *
 *   {"from": "redis://u:p@h:1"}  ->  config  {"from": "redis://u@h:1"}
 *                                    secrets {"/from": "v1:<key id>:<iv>:<tag>:<ciphertext>"}
 *
 * AES-256-GCM; the associated data is the task's id and the path in its configuration, so a secret that
 * is copied to another place does not decrypt. The first key encrypts, all keys decrypt: add a new key
 * in front to rotate.
 */
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from "node:crypto";
import { InvalidOptionError } from "@ropeway/core";
import { withoutCredentials, withoutParameters } from "@ropeway/core/internal";
import { SecretKeyMissingError, SecretUnreadableError } from "./errors.ts";

/** Any JSON. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/** A configuration without secrets, and the secrets by JSON pointer. */
export interface SplitConfig {
  readonly config: Json;
  readonly secrets: Readonly<Record<string, string>>;
}

const KEY_ALLOWED = "one or more keys of 32 random bytes in base64 or hex, separated by commas";
const SECRET_NAME =
  /passw(or)?d|passphrase|secret|token|private_?key|api_?key|credential|^(pass|pwd|auth)$/i;
/** sentinelPassword, and what signs the URL of a dump in an object store (X-Amz-Signature, sig). */
const SECRET_PARAMETER = /pass|pwd|auth|token|secret|sig|credential|key/i;
const MAX_DEPTH = 16;

/** Encrypts and decrypts with the keys of an installation. */
export class SecretBox {
  readonly #keys: readonly { readonly id: string; readonly key: Buffer }[];

  /** `text` holds the keys; undefined or "" for none, which can encrypt nothing. */
  constructor(text: string | undefined) {
    this.#keys = (text ?? "")
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "")
      .map((part) => {
        const key = Buffer.from(part, /^[0-9a-f]{64}$/i.test(part) ? "hex" : "base64");
        if (key.length !== 32) throw new InvalidOptionError("secretKey", "***", KEY_ALLOWED);
        return { id: createHash("sha256").update(key).digest("hex").slice(0, 8), key };
      });
  }

  encrypt(secret: string, place: string): string {
    const [first] = this.#keys;
    if (first === undefined) throw new SecretKeyMissingError();
    const iv = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", first.key, iv).setAAD(Buffer.from(place));
    const text = Buffer.concat([cipher.update(secret, "utf8"), cipher.final()]);
    const parts = [iv, cipher.getAuthTag(), text].map((part) => part.toString("base64url"));
    return ["v1", first.id, ...parts].join(":");
  }

  decrypt(encrypted: string, place: string): string {
    const [version, id = "?", iv = "", tag = "", text = ""] = encrypted.split(":");
    const found = this.#keys.find((key) => key.id === id);
    if (this.#keys.length === 0) throw new SecretKeyMissingError();
    if (version !== "v1" || found === undefined) throw new SecretUnreadableError(id);
    try {
      const decipher = createDecipheriv("aes-256-gcm", found.key, Buffer.from(iv, "base64url"))
        .setAAD(Buffer.from(place))
        .setAuthTag(Buffer.from(tag, "base64url"));
      const bytes = Buffer.from(text, "base64url");
      return Buffer.concat([decipher.update(bytes), decipher.final()]).toString("utf8");
    } catch {
      throw new SecretUnreadableError(id);
    }
  }

  /** A digest of a text that may have secrets in it. Without the key, it does not show which one was guessed right. */
  digest(text: string): string {
    return digestWith(this.#keys[0]?.key, text);
  }

  /** Whether it is the digest of a text, made with any of the keys, or before there was a key. */
  isDigest(text: string, digest: string): boolean {
    const candidates = [...this.#keys.map(({ key }) => key), undefined];
    return candidates.some((key) => digestWith(key, text) === digest);
  }

  /** Takes the secrets out of a task's configuration and encrypts them. */
  seal(config: Json, taskId: string): SplitConfig {
    const { config: clean, secrets } = splitSecrets(config);
    const sealed = Object.entries(secrets).map(([pointer, secret]) => [
      pointer,
      this.encrypt(secret, taskId + pointer),
    ]);
    return { config: clean, secrets: Object.fromEntries(sealed) };
  }

  /** Puts the secrets back. */
  open({ config, secrets }: SplitConfig, taskId: string): Json {
    let whole = config;
    for (const [pointer, encrypted] of Object.entries(secrets)) {
      whole = replaceAt(
        whole,
        pointer.split("/").slice(1),
        this.decrypt(encrypted, taskId + pointer),
      );
    }
    return whole;
  }
}

function digestWith(key: Buffer | undefined, text: string): string {
  const hash = key === undefined ? createHash("sha256") : createHmac("sha256", key);
  return hash.update(text).digest("hex").slice(0, 40);
}

/** Finds passwords in URLs, and strings whose name says that they are secret. */
export function splitSecrets(config: Json): SplitConfig {
  const secrets: Record<string, string> = {};
  const walk = (value: Json, pointer: string, name: string): Json => {
    if (pointer.split("/").length > MAX_DEPTH) {
      throw new InvalidOptionError("config", pointer, `nested at most ${MAX_DEPTH} levels deep`);
    }
    const isSecret = SECRET_NAME.test(name);
    if (isSecret && typeof value === "number") {
      throw new InvalidOptionError(`config${pointer.replaceAll("/", ".")}`, "***", "a string");
    }
    if (typeof value === "string") {
      const clean = isSecret ? "" : withoutPassword(value);
      if (clean !== value) secrets[pointer] = value;
      return clean;
    }
    if (Array.isArray(value)) {
      return value.map((item: Json, index) => walk(item, `${pointer}/${index}`, name));
    }
    if (typeof value === "object" && value !== null) {
      const walked = Object.entries(value).map(([key, item]) => [
        key,
        // Everything below a name that says so is secret.
        walk(item as Json, `${pointer}/${escapePart(key)}`, isSecret ? name : key),
      ]);
      return Object.fromEntries(walked);
    }
    return value;
  };
  const clean = walk(config, "", "");
  return { config: clean, secrets };
}

/**
 * A URL with its password taken out; any other text as it is. The text comes from users, so each step
 * takes time in proportion to its length: no expression looks at the same stretch from many starts.
 */
function withoutPassword(text: string): string {
  const clean =
    withoutCredentials(text) ??
    withoutHttpPassword(text) ??
    withoutUnencoded(text) ??
    // Other addresses, lists of them, and addresses that nobody accepts: they must not leak either.
    text.replace(/([a-z0-9+.-]:\/\/)([^/?#]*)@/gi, (_, scheme: string, user: string) => {
      const name = user.split(":", 1)[0] ?? "";
      if (!user.includes(":")) return `${scheme}${user}@`;
      return name === "" ? scheme : `${scheme}${name}@`;
    });
  return withoutParameters(clean, SECRET_PARAMETER, "");
}

/** An HTTP address without its password, found as fetch() finds it; undefined if there is none. */
function withoutHttpPassword(text: string): string | undefined {
  if (!/^https?:/i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (url.password === "") return undefined;
  url.password = "";
  return url.href;
}

/**
 * redis://user:12?b@host: what nobody accepts as an address, with a password that was not percent-encoded. Behind
 * what looks like a port, an "@" belongs to a password too, unless it is in the value of a parameter or in the path
 * of a file.
 */
function withoutUnencoded(text: string): string | undefined {
  const head = /^[a-z][a-z0-9+.-]*:\/\/[^:@/?#]*:/i.exec(text)?.[0];
  if (head === undefined) return undefined;
  const rest = text.slice(head.length);
  const looksLikePort = /^\d*(?:[/?#,]|$)/.test(rest);
  const isFile = /^(?:https?|file):/i.test(text);
  const isUnencoded = looksLikePort
    ? !isFile && /^\d+(?:\/[^@?#]*)?(?:[?#][^@=]*)?@/.test(rest)
    : /^[^/?#]*[/?#][^@]*@/.test(rest);
  return isUnencoded ? `${head.slice(0, -1)}${text.slice(text.lastIndexOf("@"))}` : undefined;
}

function escapePart(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function replaceAt(value: Json, path: readonly string[], secret: string): Json {
  const [part, ...rest] = path;
  if (part === undefined) return secret;
  const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
  if (Array.isArray(value)) {
    return value.map((item: Json, index) =>
      String(index) === key ? replaceAt(item, rest, secret) : item,
    );
  }
  if (typeof value === "object" && value !== null && Object.hasOwn(value, key)) {
    const object = value as Record<string, Json>;
    return { ...object, [key]: replaceAt(object[key] ?? null, rest, secret) };
  }
  return value;
}
