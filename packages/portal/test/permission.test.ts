import fc from "fast-check";
import { expect, test } from "vitest";
import { BUILT_IN_ROLES, covers, type Permission, Policy } from "../src/access/permission.ts";

const policy = new Policy(
  [
    {
      permissions: {
        "task:view": { least: "viewer", means: "" },
        "task:operate": { least: "operator", means: "" },
        "user:view": { least: "admin", means: "" },
        "user:edit": { least: "admin", means: "" },
        "session:view": { least: "everyone", means: "" },
      },
    },
    {},
  ],
  { watcher: ["*:view"], tasker: ["task:*"], stopper: ["task:operate"] },
);

test("each built-in role has what its permissions say, and all that lesser roles have", () => {
  expect(policy.allowedTo("viewer")).toEqual(["task:view", "session:view"]);
  expect(policy.allowedTo("operator")).toEqual(["task:view", "task:operate", "session:view"]);
  expect(policy.allowedTo("admin")).toEqual([...policy.permissions.keys()]);
});

test("custom roles have what their grants cover, and what everyone has", () => {
  expect(policy.allowedTo("watcher")).toEqual(["task:view", "user:view", "session:view"]);
  expect(policy.allowedTo("tasker")).toEqual(["task:view", "task:operate", "session:view"]);
  expect(policy.allowedTo("stopper")).toEqual(["task:view", "task:operate", "session:view"]);
});

test("a role that does not exist has what everyone has, and nothing else", () => {
  for (const role of ["", "nobody", "__proto__", "constructor"]) {
    expect(policy.allowedTo(role)).toEqual(["session:view"]);
  }
});

test("a custom role cannot take the name of a built-in one", () => {
  const sly = new Policy([{ permissions: { "user:edit": { least: "admin", means: "" } } }], {
    viewer: ["*:*"],
  });
  expect(sly.allows("viewer", "user:edit")).toBe(false);
});

test("nobody has a permission that no part declares", () => {
  for (const role of BUILT_IN_ROLES) expect(policy.allows(role, "task:destroy")).toBe(false);
});

const word = fc.stringMatching(/^[a-z]{1,3}$/);
const permission = fc.tuple(word, word).map(([a, b]): Permission => `${a}:${b}`);
const half = fc.oneof(word, fc.constant("*"));
const grants = fc.array(
  fc.tuple(half, half).map(([a, b]) => `${a}:${b}`),
  { maxLength: 5 },
);

test("more grants never allow less, and what one grant covers, the list covers", () => {
  fc.assert(
    fc.property(grants, grants, permission, (some, more, wanted) => {
      const alone = [...some, ...more].some((grant) => covers([grant], wanted));
      expect(covers([...some, ...more], wanted)).toBe(alone);
      if (covers(some, wanted)) expect(covers([...some, ...more], wanted)).toBe(true);
    }),
  );
});

test("a grant without stars covers itself, viewing the same resource, and nothing else", () => {
  fc.assert(
    fc.property(permission, permission, (granted, wanted) => {
      const [resource] = granted.split(":");
      const expected = granted === wanted || wanted === `${resource}:view`;
      expect(covers([granted], wanted)).toBe(expected);
    }),
  );
});

test("a route must ask for a permission that exists, or say that it is public", () => {
  policy.check("GET /a", "public");
  policy.check("GET /a", "task:view");
  expect(() => policy.check("GET /a", undefined)).toThrow("GET /a declares no permission");
  expect(() => policy.check("GET /a", "task:veiw")).toThrow("asks for task:veiw");
});
