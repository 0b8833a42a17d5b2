/** The languages of our pages, and how one is chosen. */
export type Language = "en" | "zh";

/** The language that Accept-Language ranks highest; English if it names none of ours. */
export function languageOf(header: string | undefined): Language {
  const wanted = (header ?? "")
    .split(",")
    .map((entry) => {
      const [tag = "", ...parameters] = entry
        .trim()
        .toLowerCase()
        .split(/\s*;\s*/);
      const q = parameters.find((one) => one.startsWith("q="))?.slice(2);
      return { language: tag.split("-", 1)[0], rank: q === undefined ? 1 : Number(q) };
    })
    .filter(({ language, rank }) => (language === "en" || language === "zh") && rank > 0)
    .sort((a, b) => b.rank - a.rank);
  return wanted[0]?.language === "zh" ? "zh" : "en";
}
