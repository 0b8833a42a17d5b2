// Finds faults in the public signatures of a package: an export without a description, an `any`, or a mentioned
// type of ours that is not exported.
import { declarationOf, isHidden, publicApi } from "./public-api.mjs";

/** One line per fault. */
export function faultsOf(folder) {
  const exports = publicApi(folder).flatMap((entry) => entry.exports);
  const own = exports.filter(({ nodes }) => nodes !== undefined);
  const known = new Set(own.map(({ key }) => key));
  const faults = [];
  for (const { name, doc, nodes, file } of own) {
    if (doc === "" || /^See the top/.test(doc)) faults.push(`${name} has no description`);
    for (const node of nodes.flatMap((root) => [...typesIn(root)])) {
      if (node.type === "TSAnyKeyword") faults.push(`${name} mentions any`);
      const mentioned = nameIn(node);
      if (mentioned === undefined) continue;
      const { key, declarations } = declarationOf(file, { name: mentioned });
      if (declarations.length > 0 && !known.has(key)) {
        faults.push(`${name} mentions ${mentioned}, which is not exported`);
      }
    }
  }
  return [...new Set(faults)];
}

/** Every type node below a declaration, except in hidden members. */
function* typesIn(node) {
  if (isHidden(node)) return;
  yield node;
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === "string" && child.type !== "CommentBlock") yield* typesIn(child);
    }
  }
}

/** The name a type node refers to, if it refers to one. */
function nameIn(node) {
  if (node.type === "TSTypeReference") return node.typeName.name;
  if (node.type === "TSExpressionWithTypeArguments") return node.expression.name;
  if (node.type === "ClassDeclaration") return node.superClass?.name;
  return node.type === "TSTypeQuery" ? node.exprName.name : undefined;
}
