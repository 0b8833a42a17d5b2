import { expect, test } from "vitest";
import { sign, signingKey } from "../src/delivery/signature.ts";
import { verifyWebhook } from "../src/index.ts";

// The example of the Standard Webhooks specification and its libraries.
const KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const SECONDS = 1_614_265_330;
const BODY = '{"test": 2432232314}';
const SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

const headers = {
  "webhook-id": ID,
  "webhook-timestamp": String(SECONDS),
  "webhook-signature": SIGNATURE,
};
const options = { keys: [KEY], now: SECONDS * 1_000 };

test("the signature is the one that Standard Webhooks prescribes", () => {
  const parts = { id: ID, timestamp: SECONDS, body: Buffer.from(BODY) };
  expect(sign(parts, [signingKey(KEY)])).toBe(SIGNATURE);
  expect(() => verifyWebhook(headers, BODY, options)).not.toThrow();
});

test("one genuine signature among several is enough, and versions we do not know are passed over", () => {
  const several = `v2,AAAA v1a,${SIGNATURE.slice(3)} v1,AAAA ${SIGNATURE}`;
  expect(() =>
    verifyWebhook({ ...headers, "webhook-signature": several }, BODY, options),
  ).not.toThrow();
  const unknown = `v1a,${SIGNATURE.slice(3)}`;
  expect(() => verifyWebhook({ ...headers, "webhook-signature": unknown }, BODY, options)).toThrow(
    "no signature",
  );
});

test.each([
  ["no signature matches", { "webhook-id": "msg_2" }],
  ["no signature matches", { "webhook-timestamp": String(SECONDS + 1) }],
  ["too far from now", { "webhook-timestamp": "now" }],
  ["webhook-id is missing", { "webhook-id": undefined }],
  ["webhook-signature is missing", { "webhook-signature": "" }],
])("a webhook with altered headers is refused: %s", (reason, altered) => {
  const verify = () => verifyWebhook({ ...headers, ...altered }, BODY, options);
  expect(verify).toThrow(reason);
  expect(verify).toThrow(expect.objectContaining({ code: "WEBHOOK_VERIFICATION" }));
});

test("an altered body is refused", () => {
  expect(() => verifyWebhook(headers, `${BODY} `, options)).toThrow("no signature matches");
});

test("what is older or earlier than the tolerance is refused", () => {
  for (const off of [-300_001, 300_001]) {
    const late = { ...options, now: options.now + off };
    expect(() => verifyWebhook(headers, BODY, late)).toThrow("too far from now");
    expect(() => verifyWebhook(headers, BODY, { ...late, toleranceMs: 400_000 })).not.toThrow();
  }
});
