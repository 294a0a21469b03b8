import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { redact, redacted } from './support-bundle.ts';

describe('redact', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

  it('takes keys, tokens and passwords out, whatever they stand in', () => {
    const jwt = 'eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLW9mLXRva2Vu';
    const secret = 'hunter2hunter2';
    const texts = [
      `before ${pem} after`,
      JSON.stringify({ pem }),
      `client-key-data: ${Buffer.from(pem).toString('base64')}`,
      `authorization: Bearer ${jwt}`,
      `"token":"${jwt}"`,
      `Bearer abcdefghijklmnop`,
      `redis://:${secret}@redis:6379`,
      `rediss://user:${secret}@redis:6379/0`,
      `--etcd-root-password=${secret}`,
      `{"password": "${secret}"}`,
      `AWS_SECRET_ACCESS_KEY=${secret}`,
      `aws.secretKey: ${secret}`,
      'AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ',
    ];
    const body = pem.split('\n')[1] ?? '';
    const base64 = Buffer.from(pem).toString('base64').slice(60, 100);
    for (const text of texts) {
      const left = redact(text);
      expect(left).toContain(redacted);
      for (const kept of [secret, body, base64, jwt.slice(-20), 'abcdefghijklmnop', 'QQQQQQQQ'])
        expect(left, text).not.toContain(kept);
    }
  });

  it('leaves what helps', () => {
    const texts = [
      'I1124 15:00:00 controller.go:615] quota admission added evaluator for: serviceaccounts',
      '{"level":30,"virtualCluster":"default/a","msg":"step done"}',
      'https://127.0.0.1:21000/api/v1/secrets?limit=500',
      '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
      'name: skerry.dev/token',
    ];
    for (const text of texts) expect(redact(text)).toBe(text);
  });
});
