/** What an array or an object takes by itself, and what it takes for each element or field. Measured with V8. */
const arrayBytes = 48;
const objectBytes = 96;
const elementBytes = 16;
const fieldBytes = 50;
const textBytes = 24;
/** Keys that are numbers are kept apart, in a table with places for those in between: for the table, and for each. */
const numberTableBytes = 230;
const numberKeyBytes = 30;
/** Shorter texts count as if they had characters of two bytes. */
const shortText = 64;
const wide = /[\u0100-\uffff]/;

/**
 * About how many bytes a JSON value takes in memory, at a high guess: no shape that a tenant may choose takes more. What
 * objects share, such as frequent keys and shapes, counts for each.
 */
export function estimateBytes(value: unknown): number {
  if (typeof value === 'string') return textOf(value);
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) {
    let bytes = arrayBytes;
    for (const item of value) bytes += elementBytes + estimateBytes(item);
    return bytes;
  }
  let bytes = objectBytes;
  let hasTable = false;
  for (const key in value) {
    if (beginsWithDigit(key)) {
      bytes += hasTable ? numberKeyBytes : numberTableBytes + numberKeyBytes;
      hasTable = true;
    }
    bytes += fieldBytes + key.length + estimateBytes((value as Record<string, unknown>)[key]);
  }
  return bytes;
}

/** An object of a resource takes about this much at least: what finds it in caches, indexes and queues is as large as itself. */
const smallestObjectBytes = 1024;

/** The same for an object that is kept. */
export function estimateObjectBytes(object: object): number {
  return Math.max(smallestObjectBytes, estimateBytes(object));
}

function beginsWithDigit(key: string): boolean {
  const first = key.charCodeAt(0);
  return first >= 0x30 && first <= 0x39;
}

/** V8 takes two bytes for each character of a text that has one beyond Latin-1. */
function textOf(text: string): number {
  const { length } = text;
  return textBytes + (length < shortText || wide.test(text) ? 2 * length : length);
}

/**
 * Whether the JSON text of a value has more characters than this, at a low guess. Looks at no more than that needs: a
 * value in which a part stands many times may have a text that is far longer than what it takes in memory.
 */
export function hasLongText(value: unknown, characters: number): boolean {
  return textLeft(value, characters) < 0;
}

/** What is left of so many characters; stops below 0. Runs for every write: kept cheap. */
function textLeft(value: unknown, characters: number): number {
  if (typeof value === 'string') return characters - value.length - 2;
  let left = characters - 1;
  if (typeof value !== 'object' || value === null) return left;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = textLeft(value[index], left - 1);
    return left;
  }
  for (const key in value) {
    if (left < 0) return left;
    left = textLeft((value as Record<string, unknown>)[key], left - key.length - 4);
  }
  return left;
}
