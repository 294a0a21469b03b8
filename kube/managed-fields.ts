const key = '"managedFields":[';
const quote = 0x22;
const backslash = 0x5c;
const opening = 0x5b;
const closing = 0x5d;
const comma = 0x2c;

/**
 * The same JSON without `managedFields`, which are half of many an object, are made of keys that are found nowhere
 * else, and take most of the time to parse. Cuts arrays under that key at any depth: not for objects of kinds that
 * may have a field of that name. What is no complete JSON comes back as it is.
 */
export function withoutManagedFields(json: string): string {
  let at = json.indexOf(key);
  if (at === -1) return json;
  let kept = '';
  let from = 0;
  while (at !== -1) {
    const end = endOfArray(json, at + key.length);
    if (end === -1) return json;
    if (json.charCodeAt(end) === comma) {
      kept += json.slice(from, at);
      from = end + 1;
    } else {
      kept += json.slice(from, json.charCodeAt(at - 1) === comma ? at - 1 : at);
      from = end;
    }
    at = json.indexOf(key, from);
  }
  return kept + json.slice(from);
}

/** Index after the bracket that closes the array whose first element begins at `at`; -1: there is none. */
function endOfArray(json: string, at: number): number {
  let depth = 1;
  for (let index = at; index < json.length; index++) {
    const char = json.charCodeAt(index);
    if (char === quote) {
      index = endOfString(json, index);
      if (index === -1) return -1;
    } else if (char === opening) depth += 1;
    else if (char === closing) {
      depth -= 1;
      if (depth === 0) return index + 1;
    }
  }
  return -1;
}

/** Index of the quote that closes the string which begins at `at`; -1: there is none. */
function endOfString(json: string, at: number): number {
  for (let index = at + 1; index < json.length; index++) {
    const char = json.charCodeAt(index);
    if (char === backslash) index += 1;
    else if (char === quote) return index;
  }
  return -1;
}
