/** How names are compared. */

/** `none`: byte by byte. `case`: "JO" finds "John", but not "Jörg". `accents`: "jo" finds both. */
export type Fold = "none" | "case" | "accents";

/** A name as it is compared. */
export function folded(name: string, fold: Fold): string {
  if (fold === "none") return name;
  if (fold === "case") return lowered(name.normalize("NFC"));
  return lowered(name.normalize("NFD").replace(/\p{M}/gu, "")).normalize("NFC");
}

/** A sigma at the end of a word has a form of its own, and the end of a prefix is not that of the name. */
function lowered(name: string): string {
  return name.toLowerCase().replaceAll("ς", "σ");
}

/** The first 1, 2, ... `most` characters of a name. */
export function startsOf(name: string, most: number): string[] {
  const characters = [...name].slice(0, most);
  return characters.map((_, i) => characters.slice(0, i + 1).join(""));
}
