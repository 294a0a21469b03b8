/** How much is read from an API server at once. What is longer is not read to its end. */
export interface ReadLimits {
  /**
   * An answer with one object. Servers store at most 1.5 MiB of it, and send each `<`, `>` and `&` of that as six
   * bytes.
   */
  objectBytes: number;
  /** A page of a list. One that is longer is asked for again with fewer objects, down to one. */
  pageBytes: number;
  /** All pages of a list. */
  listBytes: number;
  /** One event of a watch. */
  eventBytes: number;
  /** One object that a watch or a list shows, in values: texts, numbers, lists, objects. */
  objectValues: number;
}

const mebibyte = 1024 * 1024;

export const defaultReadLimits: ReadLimits = {
  objectBytes: 12 * mebibyte,
  pageBytes: 64 * mebibyte,
  listBytes: Number.POSITIVE_INFINITY,
  eventBytes: 12 * mebibyte,
  objectValues: Number.POSITIVE_INFINITY,
};

/** An answer that refuses carries a Status; what is longer counts as none. */
export const errorBytes = 256 * 1024;

/** Kubernetes' own types nest some twenty deep. What nests deeper would end code that walks it. */
export const longestNesting = 500;

const tooLargeCode = 'ERR_ANSWER_TOO_LARGE';

/** More than a limit allows was read; the rest is not. */
export class TooLarge extends RangeError {
  readonly code = tooLargeCode;

  constructor(what: string, limitBytes: number) {
    super(`${what} is larger than ${limitBytes} bytes`);
  }
}

/** Whether a call failed because its answer is larger than its limit. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === tooLargeCode;
}

/** JSON.parse, but for what nests deeper than `longestNesting`. Throws a SyntaxError or a RangeError. */
export function parseJson(text: string): unknown {
  if (nestsTooDeep(text)) throw new RangeError(`it nests deeper than ${longestNesting} levels`);
  return JSON.parse(text);
}

const quote = 0x22;
const backslash = 0x5c;

/** Whether so few brackets open, in texts as well, that it cannot nest too deep: quick, as `indexOf` is. */
function hasFewBrackets(json: string): boolean {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let at = json.indexOf(bracket); at !== -1; at = json.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > longestNesting) return false;
    }
  }
  return true;
}

/** Linear in the length of the text, whatever it holds. */
function nestsTooDeep(json: string): boolean {
  // Half of what nests closes it again.
  if (json.length <= 2 * longestNesting || hasFewBrackets(json)) return false;
  let depth = 0;
  for (let index = 0; index < json.length; index++) {
    const char = json.charCodeAt(index);
    if (char === quote) {
      for (index += 1; index < json.length; index++) {
        const inside = json.charCodeAt(index);
        if (inside === backslash) index += 1;
        else if (inside === quote) break;
      }
    } else if (char === 0x7b || char === 0x5b) {
      depth += 1;
      if (depth > longestNesting) return true;
    } else if (char === 0x7d || char === 0x5d) depth -= 1;
  }
  return false;
}
