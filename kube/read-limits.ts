/** How much is read from an API server at once. What is longer is not read to its end. */
export interface ReadLimits {
  /**
   * An answer with one object. Servers store at most 1.5 MiB of it, and send each `<`, `>` and `&` of that as six
   * bytes.
   */
  objectBytes: number;
  /** A page of a list. One that is longer is asked for again with fewer objects, down to one, which may have `objectBytes`. */
  pageBytes: number;
  /** All pages of a list. */
  listBytes: number;
  /** One event of a watch. */
  eventBytes: number;
  /**
   * Brackets and commas outside of texts, of one answer or event: each stands for a value, and takes up to 120 bytes of
   * memory, however few the text has. A page that has more is asked for again with fewer objects.
   */
  answerValues: number;
  /** The same, of all pages of a list. */
  listValues: number;
  /** One object that a watch or a list shows, in values: texts, numbers, lists, objects. */
  objectValues: number;
}

const mebibyte = 1024 * 1024;

export const defaultReadLimits: ReadLimits = {
  objectBytes: 12 * mebibyte,
  pageBytes: 64 * mebibyte,
  listBytes: Number.POSITIVE_INFINITY,
  eventBytes: 12 * mebibyte,
  answerValues: Number.POSITIVE_INFINITY,
  listValues: Number.POSITIVE_INFINITY,
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

  constructor(what: string, limit: number, unit = 'bytes') {
    super(`${what} is larger than ${limit} ${unit}`);
  }
}

/** Whether a call failed because its answer is larger than its limit. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === tooLargeCode;
}

/**
 * JSON.parse, but for what nests deeper than `longestNesting`, or has more than `maxValues` brackets and commas outside of
 * texts. Throws a SyntaxError, a RangeError, or TooLarge. Of a server that is given such a limit, nothing takes more memory
 * than the fields that are left of it.
 */
export function parseJson(text: string, maxValues = Number.POSITIVE_INFINITY): unknown {
  return parseCounted(text, maxValues).parsed;
}

/** As `parseJson`, with the brackets and commas outside of texts: 0 where `maxValues` is no limit, as they are not counted then. */
export function parseCounted(text: string, maxValues: number): { parsed: unknown; values: number } {
  const isLimited = Number.isFinite(maxValues);
  if (!isLimited && !mayNestTooDeep(text)) return { parsed: JSON.parse(text), values: 0 };
  const { values, isTooDeep } = shapeOf(text, maxValues);
  if (isTooDeep) throw new RangeError(`it nests deeper than ${longestNesting} levels`);
  if (values > maxValues) throw new TooLarge('the answer', maxValues, 'values');
  const parsed: unknown = JSON.parse(text);
  if (!isLimited) return { parsed, values: 0 };
  return { parsed: valuesIn(parsed) === values ? parsed : withoutRepetition(parsed), values };
}

/** Parsed JSON in which a field stood twice: V8 keeps room for each repetition. No API server sends that. */
function withoutRepetition(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

/** As many brackets and commas as the JSON of a value has outside of texts. */
function valuesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let values = 0;
  let entries = 0;
  if (Array.isArray(value)) {
    entries = value.length;
    for (const item of value) values += valuesIn(item);
  } else {
    for (const key in value) {
      entries += 1;
      values += valuesIn((value as Record<string, unknown>)[key]);
    }
  }
  return values + Math.max(1, entries);
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;

/** Whether so many brackets open, those in texts included, that it may nest too deep: quick, as `indexOf` is. */
function mayNestTooDeep(json: string): boolean {
  // Half of what nests closes it again.
  if (json.length <= 2 * longestNesting) return false;
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let at = json.indexOf(bracket); at !== -1; at = json.indexOf(bracket, at + 1)) {
      count += 1;
      if (count > longestNesting) return true;
    }
  }
  return false;
}

/** Opening brackets and commas outside of texts. Linear in the length of the text, whatever it holds; ends where it nests too deep or has more than `maxValues`. */
function shapeOf(json: string, maxValues: number): { values: number; isTooDeep: boolean } {
  let depth = 0;
  let values = 0;
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
      values += 1;
      if (depth > longestNesting) return { values, isTooDeep: true };
    } else if (char === comma) values += 1;
    else if (char === 0x7d || char === 0x5d) depth -= 1;
    if (values > maxValues) break;
  }
  return { values, isTooDeep: false };
}

/** What is converted and compared value by value would hold up everything else. */
export class TooManyValues extends RangeError {
  /** `what`: the object, as its owner knows it. */
  constructor(what: string, most: number) {
    super(`${what} has more than ${most} values`);
  }
}

/** Whether a value holds more values than this, those in between included. Looks at no more than that needs. */
export function hasMoreValues(value: unknown, most: number): boolean {
  return valuesLeft(value, most) < 0;
}

function valuesLeft(value: unknown, most: number): number {
  let left = most - 1;
  if (typeof value !== 'object' || value === null) return left;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = valuesLeft(value[index], left);
    return left;
  }
  for (const key in value) {
    if (left < 0) return left;
    left = valuesLeft((value as Record<string, unknown>)[key], left);
  }
  return left;
}

/**
 * Counts the time that what one server sends takes on this thread, and says when more of it may be read. A reader
 * asks for its turn before each piece.
 */
export interface ReadMeter {
  worked(ms: number): void;
  /** Undefined: at once. Rejects with the signal's reason. */
  turn(signal: AbortSignal | undefined): Promise<void> | undefined;
}

/** Counts what is in memory of answers and events that are still being read, and ends the reading of some when it is too much. */
export interface ReadMemory {
  /** For one answer or event. `abort` is called once at most, perhaps within `takes`: it has to let go of what is held. */
  hold(abort: (error: Error) => void): MemoryHold;
}

export interface MemoryHold {
  /** How much it holds now. */
  takes(bytes: number): void;
  release(): void;
}

/** Does work at once and counts it, also when it throws. */
export function metered<T>(meter: ReadMeter | undefined, work: () => T): T {
  if (meter === undefined) return work();
  const startedMs = performance.now();
  try {
    return work();
  } finally {
    meter.worked(performance.now() - startedMs);
  }
}
