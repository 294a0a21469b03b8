/** What is converted and compared value by value would hold up everything else. */
export class TooManyValues extends RangeError {
  constructor(most: number) {
    super(`it has more than ${most} values`);
  }
}

/**
 * Whether the JSON text of an object has more values than this, by its commas and brackets outside of texts. Far quicker
 * than to parse it; a short text is not looked at.
 */
export function textHasMoreValues(json: string, most: number): boolean {
  // A value takes two characters and more.
  if (json.length <= 2 * most) return false;
  let count = 0;
  for (let index = 0; index < json.length; index++) {
    const char = json.charCodeAt(index);
    if (char === quote) {
      for (index += 1; index < json.length; index++) {
        const inside = json.charCodeAt(index);
        if (inside === backslash) index += 1;
        else if (inside === quote) break;
      }
    } else if (char === comma || char === openBrace || char === openBracket) {
      count += 1;
      if (count > most) return true;
    }
  }
  return false;
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

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openBrace = 0x7b;
const openBracket = 0x5b;
