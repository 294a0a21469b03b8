import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { KubeconfigError } from './errors.ts';
import { connectionFromSecret, renderKubeconfig } from './kubeconfig.ts';
import { fuzzed } from './testing/fuzz.ts';

const good = parse(
  renderKubeconfig({
    clusterName: 'blue',
    server: 'https://127.0.0.1:6443',
    ca: 'ca',
    user: 'u',
    cert: 'c',
    key: 'k',
  }),
);

/** What comes of a Secret is a connection with these fields and no more, or a refusal. */
function expectTame(text: string): boolean {
  try {
    const connection = connectionFromSecret(text);
    expect(Object.keys(connection).sort()).toEqual(['ca', 'cert', 'key', 'server']);
    for (const value of Object.values(connection)) expect(value).toBeTypeOf('string');
    expect(connection.server).toMatch(/^\s*https:/i);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(KubeconfigError);
    return false;
  }
}

describe('a kubeconfig in a Secret', () => {
  it('of any text is refused by an error with a code', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.base64String()), (text) => {
        expectTame(text);
        expectTame(`apiVersion: v1\n${text}`);
      }),
      fuzzed(500),
    );
  });

  it('of any YAML is a plain connection or refused', () => {
    let taken = 0;
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom('https://x', 'http://x', 'file:///etc/passwd', { command: 'sh' }, null),
    );
    const field = fc.constantFrom(
      'exec',
      'auth-provider',
      'token',
      'tokenFile',
      'proxy-url',
      '__proto__',
      'as',
      'server',
      'user',
      'cluster',
      'name',
      'client-key',
      'certificate-authority-data',
      'context',
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.array(fc.nat(6), { maxLength: 4 }), field, value), { maxLength: 3 }),
        (changes) => {
          const config = structuredClone(good);
          for (const [path, name, change] of changes) {
            let place = config;
            for (const step of path) {
              const next = Object.values(place)[step % Math.max(1, Object.keys(place).length)];
              if (typeof next === 'object' && next !== null) place = next;
            }
            Object.defineProperty(place, name, {
              value: change,
              enumerable: true,
              configurable: true,
              writable: true,
            });
          }
          if (expectTame(stringify(config))) taken += 1;
        },
      ),
      fuzzed(1_500),
    );
    expect(taken).toBeGreaterThan(0);
  });
});
