import { describe, expect, it } from 'vitest';
import { checkRedisUrl } from './redis-url.ts';

describe('the URL of a Redis server', () => {
  it.each(['redis://127.0.0.1:6379', 'rediss://user:secret@redis.example/3', 'redis://[::1]:6379/0'])(
    'may be %s',
    (url) => expect(checkRedisUrl(url)).toBe(url),
  );

  it.each([
    ['localhost:6379', 'begins with localhost:'],
    ['nonsense', 'redis://HOST:6379/0'],
    ['http://127.0.0.1', 'begins with http:'],
    ['redis://user:sec/ret@host', 'redis://user:***@host'],
    ['http://user:s%C3%A4@host', 'http://user:***@host'],
    ['redis://', 'names no host'],
    ['redis://host/queue', 'no database number'],
  ])('may not be %s', (url, why) => expect(() => checkRedisUrl(url)).toThrow(why));

  it('keeps its password to itself', () => {
    expect(() => checkRedisUrl('http://user:secret@host')).toThrow(/user:\*\*\*@host/);
  });
});
