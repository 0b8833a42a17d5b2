/** The summary of an RDB for people. */
import type { RdbSummary } from "@ropeway/sync";
import type { Output } from "../terminal/output.ts";
import { byteText } from "./byte-text.ts";

export function printSummary(output: Output, summary: RdbSummary): void {
  const { family, version, aux, total, expiring, fileBytes, checksum } = summary;
  const written = aux["valkey-ver"] ?? aux["redis-ver"];
  const server = written === undefined ? "" : `, written by ${written}`;
  output.details(summary, {
    file: `RDB ${version} (${family}${server}), ${byteText(fileBytes)}, checksum ${checksum ?? "missing"}`,
    keys: `${total.keys}, of which ${expiring} expire`,
    memory: `about ${byteText(total.bytes)} in a server`,
    functions: summary.functions || undefined,
    scripts: summary.scripts || undefined,
    modules: summary.modules.join(", ") || undefined,
  });
  const percent = (bytes: number) =>
    total.bytes === 0 ? "" : `${((100 * bytes) / total.bytes).toFixed(1)} %`;
  const sized = ({ keys, bytes }: { readonly keys: number; readonly bytes: number }) => [
    keys,
    byteText(bytes),
    percent(bytes),
  ];
  section(output, "Encodings", {
    head: ["ENCODING", "KEYS", "MEMORY", "SHARE"],
    rows: summary.encodings.map((sum) => [sum.encoding, ...sized(sum)]),
  });
  section(output, "Databases", {
    head: ["DB", "KEYS", "MEMORY", "SHARE"],
    rows: summary.dbs.map((sum) => [sum.db, ...sized(sum)]),
  });
  const { otherPrefixes } = summary;
  section(output, "Memory by prefix", {
    head: ["PREFIX", "KEYS", "MEMORY", "SHARE"],
    rows: [
      ...summary.prefixes.map((sum) => [sum.prefix || "(no prefix)", ...sized(sum)]),
      ...(otherPrefixes.keys === 0 ? [] : [["(others)", ...sized(otherPrefixes)]]),
    ],
  });
  section(output, "Biggest keys", {
    head: ["KEY", "DB", "ENCODING", "ELEMENTS", "MEMORY", "IN FILE"],
    rows: summary.biggest.map(({ key, db, encoding, elements, bytes, fileBytes: inFile }) => {
      return [key, db, encoding, elements ?? "", byteText(bytes), byteText(inFile)];
    }),
  });
  section(output, "Expiry", {
    head: ["EXPIRES", "KEYS"],
    rows: summary.expiry.filter(({ keys }) => keys > 0).map(({ within, keys }) => [within, keys]),
  });
}

interface Section {
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

function section(output: Output, title: string, { head, rows }: Section): void {
  if (rows.length === 0) return;
  output.line("");
  output.heading(title);
  output.table(head, rows);
}
