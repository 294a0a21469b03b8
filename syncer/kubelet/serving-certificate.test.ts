import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { FakeClock, startFakeCluster } from '../../kube/testing/index.ts';
import { followServingIdentity, type ServingIdentity } from './serving-certificate.ts';

const metadata = { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' };

function secret(...[cert, key, ca]: string[]): { metadata: typeof metadata; data: Record<string, string> } {
  const parts = Object.entries({ 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca });
  const data = parts.flatMap(([name, text]) =>
    text === undefined ? [] : [[name, Buffer.from(text).toString('base64')]],
  );
  return { metadata, data: Object.fromEntries(data) };
}

/** Follows until `done` says so of all that it has told. */
async function follow(
  prepare: (put: (...parts: string[]) => void) => void,
  onTold: (told: readonly (ServingIdentity | string)[], put: (...parts: string[]) => void) => boolean,
): Promise<(ServingIdentity | string)[]> {
  await using cluster = await startFakeCluster();
  const put = (...parts: string[]): void => {
    cluster.server.put(resources.secrets, secret(...parts));
  };
  prepare(put);
  const told: (ServingIdentity | string)[] = [];
  const stop = new AbortController();
  const tell = (what: ServingIdentity | string): void => {
    told.push(what);
    if (onTold(told, put)) stop.abort();
  };
  await followServingIdentity(
    {
      client: cluster.client,
      namespace: 'skerry-system',
      clock: new FakeClock({ autoAdvance: true }),
      onIdentity: tell,
      onWait: tell,
    },
    stop.signal,
  );
  return told;
}

describe('the serving certificate', () => {
  it('is waited for until the manager has made it whole', async () => {
    const told = await follow(
      () => undefined,
      (all, put) => {
        if (all.length === 1) put('CERT');
        if (all.length === 2) put('CERT', 'KEY', 'CA');
        return all.length === 3;
      },
    );
    expect(told).toEqual([
      'there is no Secret skerry-system/skerry-kubelet-proxy yet',
      'Secret skerry-system/skerry-kubelet-proxy has no tls.crt, tls.key or ca.crt',
      { certificate: { cert: 'CERT', key: 'KEY' }, ca: 'CA' },
    ]);
  });

  it('is told of again when it is renewed, and only then', async () => {
    const told = await follow(
      (put) => put('CERT', 'KEY', 'CA'),
      (all, put) => {
        if (all.length === 1) {
          put('CERT', 'KEY', 'CA');
          put('CERT 2', 'KEY 2', 'CA');
        }
        return all.length === 2;
      },
    );
    expect(told.map((each) => (typeof each === 'string' ? each : each.certificate.cert))).toEqual([
      'CERT',
      'CERT 2',
    ]);
  });
});
