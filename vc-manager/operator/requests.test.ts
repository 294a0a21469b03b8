import { expect, it } from 'vitest';
import { newRequest } from './requests.ts';

const asked = (value: string | undefined, followed: string | undefined) =>
  newRequest({ metadata: value === undefined ? {} : { annotations: { key: value } } }, 'key', followed);

it('a request is new until the status has it as an API server keeps it', () => {
  expect(asked(undefined, undefined)).toBeUndefined();
  expect(asked('now', undefined)).toBe('now');
  expect(asked('now', 'before')).toBe('now');
  expect(asked('now', 'now')).toBeUndefined();
  const long = 'x'.repeat(70);
  expect(asked(long, undefined)).toBe('x'.repeat(64));
  expect(asked(long, 'x'.repeat(64))).toBeUndefined();
  // What is cut in the middle of a character, and what never was one.
  expect(asked(`${'x'.repeat(63)}😀`, undefined)).toBe(`${'x'.repeat(63)}\ufffd`);
  expect(asked('\ud83d', '\ufffd')).toBeUndefined();
});
