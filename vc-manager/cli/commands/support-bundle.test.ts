import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { runCaptured } from '../testing/captured.ts';
import { redact, redacted, withoutSecrets } from './support-bundle.ts';

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

  it('takes a value out in every form in which a program writes it', () => {
    const secret = 'hunter2 hunter3';
    const word = 'hunter2';
    const inLog = (value: unknown): string => JSON.stringify({ msg: JSON.stringify(value), level: 30 });
    const texts = [
      `Authorization: Basic aHVudGVyMjpodW50ZXIz`,
      `-H "Authorization: Basic aHVudGVyMjpodW50ZXIz" https://registry`,
      `Authorization: token aHVudGVyMjpodW50ZXIz`,
      `headers=map[Authorization:[Basic aHVudGVyMjpodW50ZXIz] Accept:[text/plain]]`,
      `{"Authorization":["Basic aHVudGVyMjpodW50ZXIz"]}`,
      `Set-Cookie: session=${word}; Path=/`,
      `{"clientSecret":"${word}"}`,
      `{"client_secret": "${secret}"}`,
      `client_secret=${word}&grant_type=x`,
      `secret=${word}`,
      `secret: ${word}`,
      `--password ${word}`,
      `--token  ${word}`,
      `--client-secret '${secret}'`,
      `["--password","${word}","--v=2"]`,
      inLog(['--token', word]),
      `{"password":"${secret}"}`,
      `{"password":"\\"${secret}\\" ${secret}"}`,
      `password='${secret}'`,
      `could not sign in with password: ${secret}`,
      inLog({ password: secret }),
      inLog({ password: `"${secret}", "${secret}"` }),
      JSON.stringify({ msg: inLog({ token: secret }) }),
      `apiKey: ${word}`,
      `api_key=${word}`,
      `{"api-key":"${secret}"}`,
      `x-api-key: ${word}`,
      `passphrase: ${secret}`,
      `PASSPHRASE="${secret}"`,
      `DB_PASS=${word}`,
      `password: abc`,
      `token: "${secret}`,
      `secrets=${word}`,
      `{"secrets": "${secret}"}`,
      `SECRET_KEY_BASE=${word}`,
      `secret_value: ${word}`,
      // Not the word, but what begins as it.
      'password=true-hunter',
      'token: null.hunter',
      `password={${word}`,
      `password=\\${word}`,
    ];
    for (const text of texts) {
      const left = redact(text);
      expect(left, text).toContain(redacted);
      for (const kept of ['hunter', 'aHVudGVy', 'abc']) expect(left, text).not.toContain(kept);
    }
    expect(redact('--password hunter2 --v=2')).toBe(`--password ${redacted} --v=2`);
    expect(redact('{"token":"hunter2","level":30}')).toBe(`{"token":"${redacted}","level":30}`);
    expect(redact('token=eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl')).toBe(
      `token=${redacted}`,
    );
    const log = JSON.parse(redact(inLog({ password: secret, user: 'me' }))) as { msg: string };
    expect(JSON.parse(log.msg)).toEqual({ password: redacted, user: 'me' });
  });

  it('leaves what helps', () => {
    const texts = [
      'I1124 15:00:00 controller.go:615] quota admission added evaluator for: serviceaccounts',
      '{"level":30,"virtualCluster":"default/a","msg":"step done"}',
      'https://127.0.0.1:21000/api/v1/secrets?limit=500',
      '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----',
      'name: skerry.dev/token',
      '{"secret":{"secretName":"blue"},"automountServiceAccountToken":false,"passwords":2}',
      '"kubeconfigSecret": {\n  "name": "blue-kubeconfig",\n  "key": "kubeconfig"\n}',
      'open /run/secrets/token: no such file or directory',
      '--token-file /run/token --service-account-key-file=/etc/sa.key',
      'secret "blue" not found',
      'token=true, secret: null',
      'password=false\nuser: me',
      '{"msg":"{\\"token\\":{\\"name\\":\\"blue\\"},\\"secret\\":{}}"}',
    ];
    for (const text of texts) expect(redact(text)).toBe(text);
  });
});

describe('withoutSecrets', () => {
  it('leaves of environments and arguments only what each is called', () => {
    const container = {
      name: 'vc-syncer',
      command: ['/usr/bin/node', 'main.ts'],
      args: ['--v=2', '--proxy', 'http://me:hunter2@proxy', '--pin=1234', 'hunter2'],
      env: [
        { name: 'PIN', value: 'hunter2' },
        { name: 'NODE', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
      ],
    };
    expect(withoutSecrets({ spec: { containers: [container] } })).toEqual({
      spec: {
        containers: [
          {
            name: 'vc-syncer',
            command: ['/usr/bin/node', redacted],
            args: [`--v=${redacted}`, '--proxy', redacted, `--pin=${redacted}`, redacted],
            env: [{ name: 'PIN', value: redacted }, container.env[1]],
          },
        ],
      },
    });
  });

  it('takes a value out of a flag of one letter, which may be one argument with it', () => {
    expect(withoutSecrets({ args: ['-phunter2', '-p', 'hunter2', '-', '-v=2'] })).toEqual({
      args: [`-p${redacted}`, '-p', redacted, '-', `-v${redacted}`],
    });
  });

  it('leaves of headers of probes and hooks only what each is called', () => {
    const httpGet = { path: '/', port: 80, httpHeaders: [{ name: 'X-Pin', value: 'hunter2' }] };
    const left = { ...httpGet, httpHeaders: [{ name: 'X-Pin', value: redacted }] };
    expect(withoutSecrets({ livenessProbe: { httpGet }, lifecycle: { preStop: { httpGet } } })).toEqual({
      livenessProbe: { httpGet: left },
      lifecycle: { preStop: { httpGet: left } },
    });
  });

  it('leaves the flags of a template, which are no list', () => {
    const template = { components: [{ name: 'etcd', args: { 'quota-backend-bytes': '1' } }] };
    expect(withoutSecrets(template)).toEqual(template);
  });
});

it('refuses a directory in the place of a file before anything is gathered', async () => {
  expect(await runCaptured(['support-bundle', '--file', import.meta.dirname])).toEqual({
    exitCode: 2,
    stdout: '',
    stderr: `error: ${import.meta.dirname} is a directory: name the file that is to be written\n`,
  });
});
