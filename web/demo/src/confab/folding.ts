/**
 * Compares names as the server's search does: case, diacritics and the width of characters are ignored. Marks that make another
 * letter, such as those of kana and of Indic scripts, stay.
 */
const DIACRITICS = /[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670]/g;
const APOSTROPHES = /[\u02bc\u2018\u2019\u201b\uff07]/g;
/** Letters without a decomposition that are typed as plain ones. */
const PLAIN: Record<string, string> = { ø: "o", ł: "l", đ: "d", æ: "ae", œ: "oe", ı: "i", þ: "th", ð: "d" };
const NOT_PLAIN = new RegExp(`[${Object.keys(PLAIN).join("")}]`, "g");
/** Scripts without spaces between words: a name is found by any part of it. */
const WITHOUT_SPACES = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;

export function fold(text: string): string {
  // Upper case first: "ß" becomes "ss", and both small sigmas become one.
  const lower = text.normalize("NFKC").toUpperCase().toLowerCase().replaceAll("ς", "σ");
  const bare = lower.normalize("NFD").replace(DIACRITICS, "").normalize("NFC");
  return bare.replace(APOSTROPHES, "'").replace(NOT_PLAIN, (letter) => PLAIN[letter]!);
}

const splitWords = (text: string) => text.split(/[^\p{L}\p{N}\p{M}']+/u).filter(Boolean);

/** True if each word of the query begins a word of the name. */
export function nameMatches(name: string, query: string): boolean {
  const folded = fold(name);
  const words = splitWords(folded);
  const wanted = splitWords(fold(query));
  return wanted.length > 0 && wanted.every((word) => (WITHOUT_SPACES.test(word) ? folded.includes(word) : words.some((each) => each.startsWith(word))));
}

/** The items whose names match, those first whose names begin with the query. */
export function filterByName<Item>(items: readonly Item[], nameOf: (item: Item) => string, query: string): Item[] {
  const begins = (item: Item) => (fold(nameOf(item)).startsWith(fold(query.trim())) ? 0 : 1);
  return items.filter((item) => nameMatches(nameOf(item), query)).sort((a, b) => begins(a) - begins(b));
}
