import { z } from 'zod';

/**
 * Text of a shape, with what to write instead as the message, on both roads: when a command checks an
 * object before it is sent, and when the API server does. `pattern` has to be understood by both, so it
 * has no flags and no look-around.
 */
export function checkedText(pattern: RegExp, maxLength: number, remedy: string): z.ZodType<string, string> {
  if (pattern.source.includes("'"))
    throw new TypeError(`the pattern ${pattern.source} cannot stand in a rule`);
  return z
    .string()
    .max(maxLength)
    .refine((text) => pattern.test(text), remedy)
    .meta({ 'x-kubernetes-validations': [{ rule: `self.matches(r'${pattern.source}')`, message: remedy }] });
}

/** A set of such texts: at most `maxItems`, none twice. */
export function textSet<T extends z.ZodType<string, string>>(item: T, maxItems = 64): z.ZodArray<T> {
  return z.array(item).max(maxItems).meta({ 'x-kubernetes-list-type': 'set' });
}
