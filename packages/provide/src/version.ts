// Versions as programs and packages write them: "7.0.15", "Redis server v=7.0.15 sha=0", "5:7.0.15-1~deb12u10".
// Only the dotted number counts, without a Debian epoch before it ("5:") and a revision after it.

/** The first dotted number in a string, without a Debian epoch; undefined if there is none. */
export function parseVersion(text: string): string | undefined {
  return /(?<![\d.])\d+\.\d+(?:\.\d+)*/.exec(text)?.[0];
}

/** Negative, zero or positive if `left` is older than, equal to or newer than `right`. */
export function compareVersions(left: string, right: string): number {
  const [a, b] = [left.split(".").map(Number), right.split(".").map(Number)];
  for (let place = 0; place < Math.max(a.length, b.length); place += 1) {
    const difference = (a[place] ?? 0) - (b[place] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
