/** The name of a field as people read it: "max attempts" for maxAttempts, "added" for addedAt. */
export function labelOf(field: string): string {
  return field.replace(/At$/, "").replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
