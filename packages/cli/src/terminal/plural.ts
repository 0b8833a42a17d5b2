/** A number with its noun: "1 job", "2 jobs", "0 dead letters". */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
