import { describe, expect, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { FakeClock, startFakeCluster } from '../../kube/testing/index.ts';
import { readServingCertificate } from './certificate.ts';

const metadata = { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' };
const base64 = (text: string): string => Buffer.from(text).toString('base64');

describe('the serving certificate', () => {
  it('is waited for until the manager has made it', async () => {
    await using cluster = await startFakeCluster();
    const waits: unknown[] = [];
    const reading = readServingCertificate(
      cluster.client,
      new FakeClock({ autoAdvance: true }),
      new AbortController().signal,
      (error) => waits.push(error),
    );
    await cluster.server.until(() => cluster.server.requests.length >= 2);
    cluster.server.put(resources.secrets, { metadata, data: {} });
    await cluster.server.until(() => String(waits.at(-1)).includes('tls.crt'));
    cluster.server.put(resources.secrets, {
      metadata,
      data: { 'tls.crt': base64('CERT'), 'tls.key': base64('KEY') },
    });
    expect(await reading).toEqual({ cert: 'CERT', key: 'KEY' });
  });

  it('is not waited for any longer than asked', async () => {
    await using cluster = await startFakeCluster();
    const stop = new AbortController();
    const reading = readServingCertificate(cluster.client, new FakeClock(), stop.signal, () =>
      stop.abort(new Error('enough')),
    );
    await expect(reading).rejects.toThrow('enough');
  });
});
