/** What an array or an object takes by itself, and what it takes for each element or field. */
const containerBytes = 48;
const slotBytes = 16;
const textBytes = 24;

/**
 * About how many bytes a JSON value takes in memory: more than its text where it has many small parts. Texts count by
 * their length, keys as well, though those that are frequent are shared.
 */
export function estimateBytes(value: unknown): number {
  if (typeof value === 'string') return textBytes + value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let bytes = containerBytes;
  if (Array.isArray(value)) {
    for (const item of value) bytes += slotBytes + estimateBytes(item);
    return bytes;
  }
  for (const key in value) {
    bytes += slotBytes + key.length + estimateBytes((value as Record<string, unknown>)[key]);
  }
  return bytes;
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
