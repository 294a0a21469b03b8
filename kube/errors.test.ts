import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { ApiError, asStatus, ConnectionError, isDeniedByAdmission, printable } from './errors.ts';
import { apiError } from './request.ts';

describe('isDeniedByAdmission', () => {
  it.each([
    ['a policy', 422, 'ValidatingAdmissionPolicy "p" with binding "b" denied request: no', true],
    ['a webhook', 403, 'admission webhook "w" denied the request: no', true],
    ['RBAC', 403, 'servicecidrs is forbidden: User "u" cannot create resource', false],
    ['the server itself', 422, 'spec.cidrs: Invalid value', false],
    ['a server that fails', 500, 'denied the request', false],
  ])('%s', (_, code, message, expected) => {
    expect(isDeniedByAdmission(new ApiError(code, { message }, 'create'))).toBe(expected);
  });
});

describe('what an API server says of a failure', () => {
  it('is a text for people, whatever it sends', () => {
    const status = asStatus({
      message: 'no\u001b[2J\nerror: all is well\u202e',
      reason: 'Bad\u0007',
      details: { causes: [{ field: 'spec\r.x', message: '\u009b31m' }] },
    });
    expect(new ApiError(400, status, 'GET pods').message).toBe('GET pods: no?[2J error: all is well?');
    expect(status).toMatchObject({
      reason: 'Bad?',
      details: { causes: [{ field: 'spec .x', message: '?31m' }] },
    });
  });

  it('is one where a server answers with no Status', () => {
    const call = { method: 'GET', path: '/api?x', verb: 'get', resource: 'pods' } as const;
    const text = `  \u001b[31mred\u001b[0m \u202e${'x'.repeat(1_000)}`;
    const { message } = apiError(call, { status: 500, text, retryAfter: undefined });
    expect(message).toMatch(/^GET \/api: \?\[31mred\?\[0m \?x+\.\.\.$/);
    expect(message.length).toBeLessThan(230);
  });

  it('has the fields of a Status and no others, cut, and no log line repeats them', () => {
    const junk = 'x'.repeat(20_000);
    const known = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: { continue: 'token' },
      status: 'Failure',
      message: 'gone',
      reason: 'Expired',
      code: 410,
      details: { name: 'web', kind: 'pods', retryAfterSeconds: 1, causes: [{ reason: 'a', message: 'b' }] },
    };
    const status = asStatus({
      ...known,
      junk,
      metadata: { ...known.metadata, junk },
      details: { ...known.details, junk, causes: [{ ...known.details.causes[0], junk }] },
    });
    expect(status).toEqual(known);
    const long = asStatus({ kind: junk, status: junk, metadata: { continue: junk }, details: { uid: junk } });
    expect(JSON.stringify(long).length).toBeLessThan(4_000);

    const lines: string[] = [];
    const logger = pino({}, { write: (line: string) => lines.push(line) });
    const error = new ApiError(410, asStatus({ ...known, message: 'y'.repeat(10_000) }), 'watch pods');
    logger.warn({ err: error }, 'problem');
    expect(lines[0]).toContain('watch pods: yyy');
    // Of the message and the stack, which begins with it.
    expect(lines[0]?.length).toBeLessThan(20_000);
    expect(lines[0]).not.toContain('retryAfterSeconds');
    expect(error.status?.details?.retryAfterSeconds).toBe(1);
  });

  it('stays as it is where it is such a text', () => {
    const message = 'pods "wéb" is forbidden: [a: Required value, b]';
    expect(asStatus({ message }).message).toBe(message);
  });

  it('is one in names of a certificate, too', () => {
    const cause = new Error('altnames: DNS:\u001b]0;x\u0007');
    expect(new ConnectionError('https://a:1', 'EX', cause).message).toBe(
      'https://a:1: altnames: DNS:?]0;x? (EX)',
    );
  });
});

it('takes out what a terminal would act on, and leaves what people write', () => {
  expect(printable('\u001b[2Jgone\r\nsecond\u202eeno\u2028', 100)).toBe('?[2Jgone second?eno?');
  expect(printable('Größe: 3 µs – 你好', 100)).toBe('Größe: 3 µs – 你好');
});

it('keeps nothing of the text that it is cut from', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  /** What 100 texts keep in memory, each of 256 KiB, of which so much is shown. */
  const kept = (show: (text: string) => string): number => {
    collect();
    const before = process.memoryUsage().heapUsed;
    const texts = Array.from({ length: 100 }, (_, at) =>
      show(Buffer.from(`${' '.repeat(131_072)}number ${at} of 100${' '.repeat(131_072)}`).toString()),
    );
    collect();
    return texts.length > 0 ? process.memoryUsage().heapUsed - before : 0;
  };
  expect(kept((text) => printable(text, 50))).toBeLessThan(1_000_000);
  expect(kept((text) => printable(text.trim(), 50))).toBeLessThan(1_000_000);
  expect(kept((text) => text.trim())).toBeGreaterThan(20_000_000);
});

it('is cut before it is looked through, in the middle of a character too', () => {
  expect(printable('a'.repeat(5), 3)).toBe('aaa...');
  expect(printable('a😀', 2)).toBe('a?...');
});
