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
