/** The settings of the merge queue; see table.ts. */
import {
  countKind,
  durationKind,
  flagKind,
  listKind,
  pathKind,
  portKind,
  secretKind,
  textKind,
} from "./kind.ts";
import type { SettingSpec } from "./table.ts";

/** The settings of the section [merge]. */
export interface MergeSettings {
  readonly "merge.serve": boolean | undefined;
  readonly "merge.host": string;
  readonly "merge.port": number;
  readonly "merge.token": string | undefined;
  readonly "merge.tokenFile": string | undefined;
  readonly "merge.signingKeys": string | undefined;
  readonly "merge.signingKeysFile": string | undefined;
  readonly "merge.allow": readonly string[];
  readonly "merge.httpsOnly": boolean;
  readonly "merge.concurrency": number;
  readonly "merge.perOrigin": number;
  readonly "merge.attempts": number;
  readonly "merge.backoffMs": number;
  readonly "merge.backoffMaxMs": number;
  readonly "merge.timeoutMs": number;
  readonly "merge.maxItems": number;
  readonly "merge.maxBytes": number;
  readonly "merge.maxBodyBytes": number;
  readonly "merge.letterAgeMs": number;
  readonly "merge.maxLetters": number;
}

export const mergeSettings: {
  readonly [K in keyof MergeSettings]: SettingSpec<MergeSettings[K]>;
} = {
  "merge.serve": {
    kind: flagKind,
    default: undefined,
    example: true,
    formerly: "queue.serve",
    doc: "Whether the merge queue accepts pushes on a port of its own and delivers due batches. Defaults to true for `ropeway up` and to false for `ropeway portal`.",
  },
  "merge.host": {
    kind: textKind,
    default: "127.0.0.1",
    formerly: "queue.host",
    doc: "The address the merge queue listens on. It has no accounts: on anything but loopback, set merge.token.",
  },
  "merge.port": {
    kind: portKind(0),
    default: 23334,
    formerly: "queue.port",
    doc: "The port of the merge queue (v3). 0 chooses a free port. If it is not set and 23334 is in use, `ropeway up` chooses another port.",
  },
  "merge.token": {
    kind: secretKind,
    default: undefined,
    orFile: "merge.tokenFile",
    formerly: "queue.token",
    doc: "The token that requests to the merge queue must send as Authorization: Bearer. If it is not set, no token is needed.",
  },
  "merge.tokenFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/merge-token",
    formerly: "queue.tokenFile",
    doc: "A file with merge.token.",
  },
  "merge.signingKeys": {
    kind: secretKind,
    default: undefined,
    orFile: "merge.signingKeysFile",
    formerly: "queue.signingKeys",
    doc: "Keys that sign deliveries (Standard Webhooks, whsec_...), separated by spaces. Every key signs, so that keys can be rotated. If it is not set, only deliveries to endpoints with a secret of their own are signed.",
  },
  "merge.signingKeysFile": {
    kind: pathKind,
    default: undefined,
    example: "/run/secrets/webhook-keys",
    formerly: "queue.signingKeysFile",
    doc: "A file with merge.signingKeys.",
  },
  "merge.allow": {
    kind: listKind,
    default: [],
    formerly: "queue.targets",
    formerEnv: "ROPEWAY_TARGETS",
    formerFlag: "--targets",
    doc: "Addresses that deliveries may reach besides public ones: addresses, networks, host names, loopback, private. If it is not set, `ropeway up` allows loopback, and `ropeway portal` allows only public addresses.",
  },
  "merge.httpsOnly": {
    kind: flagKind,
    default: false,
    doc: "Whether endpoints must use https.",
  },
  "merge.concurrency": {
    kind: countKind(1, 10_000),
    default: 128,
    formerly: "queue.concurrency",
    doc: "The maximum of deliveries at a time.",
  },
  "merge.perOrigin": {
    kind: countKind(1, 10_000),
    default: 32,
    formerly: "queue.perOrigin",
    doc: "The maximum number of deliveries to one origin at a time, so that an origin that hangs does not block the others.",
  },
  "merge.attempts": {
    kind: countKind(1, 1_000),
    default: 12,
    doc: "The number of attempts before a batch becomes a dead letter.",
  },
  "merge.backoffMs": {
    kind: durationKind(1, 86_400_000),
    default: 5_000,
    doc: "The wait after the first failed attempt; each further wait is three times as long.",
  },
  "merge.backoffMaxMs": {
    kind: durationKind(1, 2_592_000_000),
    default: 21_600_000,
    doc: "The longest wait between two attempts.",
  },
  "merge.timeoutMs": {
    kind: durationKind(1, 3_600_000),
    default: 15_000,
    doc: "How long one attempt may take.",
  },
  "merge.maxItems": {
    kind: countKind(1, 5_000),
    default: 500,
    doc: "A merge key with this many items fires at once, and no batch has more.",
  },
  "merge.maxBytes": {
    kind: countKind(1, 16_777_216),
    default: 1_048_576,
    doc: "A merge key with this many bytes fires at once, and no batch of two or more items has more.",
  },
  "merge.maxBodyBytes": {
    kind: countKind(1, 33_554_432),
    default: 1_048_576,
    doc: "The largest body of one item that the merge queue's port accepts.",
  },
  "merge.letterAgeMs": {
    kind: durationKind(0, 315_360_000_000),
    default: 7_776_000_000,
    doc: "Dead letters are deleted after this time. The default is 90 days.",
  },
  "merge.maxLetters": {
    kind: countKind(0, 1_000_000_000),
    default: 100_000,
    doc: "The oldest dead letters beyond this number are deleted.",
  },
};
