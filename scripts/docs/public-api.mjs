// Reads the exports of a package from the declarations that `tsc -b` wrote, which editors show to users. The API
// reference and the checks of public signatures use them.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "@babel/parser";
import { manifestOf } from "./consumer.mjs";

/** The public entries of a package as `[{ specifier, exports }]`, in the order of its package.json. */
export function publicApi(folder) {
  const { name, exports = {} } = manifestOf(folder);
  return Object.entries(exports)
    .filter(([path, target]) => path !== "./internal" && typeof target === "object")
    .filter(([, { types }]) => types !== undefined && existsSync(join(folder, types)))
    .map(([path, { types }]) => ({
      specifier: join(name, path),
      exports: exportsOf(join(folder, types)),
    }));
}

/** The exports of one declaration file as `[{ name, doc, declarations, file }]`. */
export function exportsOf(file) {
  const { body } = moduleOf(file);
  const names = [];
  for (const statement of body) {
    if (statement.type !== "ExportNamedDeclaration") continue;
    if (statement.declaration != null) {
      names.push(...namesOf(statement.declaration).map((name) => found(file, name)));
    }
    for (const { local, exported } of statement.specifiers) {
      const origin = { source: statement.source?.value, name: local.name };
      names.push({ ...declarationOf(file, origin), name: exported.name });
    }
  }
  const merged = new Map(names.map((entry) => [entry.name, entry])); // overloads are one name
  return [...merged.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Finds the declaration of `name` in `file`, or in the module `source` that `file` imports. Declarations of
 * other packages have only a name.
 */
export function declarationOf(file, { source, name }) {
  if (source === undefined) {
    const origin = importOf(file, name);
    return origin === undefined ? found(file, name) : declarationOf(file, origin);
  }
  if (!source.startsWith(".")) return { name, from: source, declarations: [] };
  const target = join(dirname(file), source.replace(/\.[tj]s$/, ".d.ts"));
  for (const statement of moduleOf(target).body) {
    if (statement.type !== "ExportNamedDeclaration") continue;
    const again = statement.specifiers.find(({ exported }) => exported.name === name);
    if (again === undefined) continue;
    return declarationOf(target, { source: statement.source?.value, name: again.local.name });
  }
  return found(target, name);
}

function importOf(file, local) {
  for (const statement of moduleOf(file).body) {
    if (statement.type !== "ImportDeclaration") continue;
    const specifier = statement.specifiers.find((one) => one.local.name === local);
    if (specifier !== undefined) {
      return { source: statement.source.value, name: specifier.imported?.name ?? "default" };
    }
  }
  return undefined;
}

function found(file, name) {
  const { body, text } = moduleOf(file);
  const statements = body.filter((statement) => {
    const declaration = statement.declaration ?? statement;
    return namesOf(declaration).includes(name);
  });
  const [first] = statements;
  return {
    name,
    /** Distinguishes declarations with the same name. */
    key: `${file}#${name}`,
    file,
    doc: docOf(first?.leadingComments),
    nodes: statements.map((statement) => statement.declaration ?? statement),
    declarations: statements.map((statement) => printed(statement, text)),
  };
}

function namesOf(declaration) {
  if (declaration.type === "VariableDeclaration") {
    return declaration.declarations.map(({ id }) => id.name);
  }
  return declaration.id?.name === undefined ? [] : [declaration.id.name];
}

/** Whether a member is private or marked `@internal`. */
export function isHidden(member) {
  if (member.type === "ClassPrivateProperty" || member.accessibility === "private") return true;
  return docOf(member.leadingComments).includes("@internal");
}

/** The text of a declaration without its hidden members. */
function printed(statement, text) {
  const declaration = statement.declaration ?? statement;
  const members = declaration.type === "ClassDeclaration" ? declaration.body.body : [];
  let printed = text.slice(statement.start, statement.end);
  for (const member of members.toReversed()) {
    if (!isHidden(member)) continue;
    const start = (member.leadingComments?.[0]?.start ?? member.start) - statement.start;
    printed = printed.slice(0, start).trimEnd() + printed.slice(member.end - statement.start);
  }
  return printed
    .replace(/^export (declare )?/, "")
    .replaceAll(/^( {4})+/gm, (indent) => " ".repeat(indent.length / 2));
}

function docOf(comments) {
  const last = comments?.at(-1);
  if (last?.type !== "CommentBlock" || !last.value.startsWith("*")) return "";
  return last.value
    .slice(1)
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

const modules = new Map();

function moduleOf(file) {
  let module = modules.get(file);
  if (module === undefined) {
    const text = readFileSync(file, "utf8");
    const plugins = [["typescript", { dts: true }]];
    const { program } = parse(text, { sourceType: "module", plugins, attachComment: true });
    module = { body: program.body, text };
    modules.set(file, module);
  }
  return module;
}
