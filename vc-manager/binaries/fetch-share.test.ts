import { describe, expect, it } from 'vitest';
import type { BinaryProgress } from './binary.ts';
import { FetchShare } from './fetch-share.ts';

const news = (
  name: BinaryProgress['name'],
  stage: BinaryProgress['stage'],
  percent?: number,
  message = 'compiling',
): BinaryProgress => ({
  name,
  version: '1.2.3',
  stage,
  message,
  elapsedMs: 0,
  ...(percent === undefined ? {} : { percent }),
});

describe('the progress of fetching binaries', () => {
  it('is one line for all: the share by what each takes, and the time that is left', () => {
    const share = new FetchShare(1_000);
    share.add(news('etcd', 'building', 0));
    share.add(news('kube-apiserver', 'waiting'));
    expect(share.message(2_000)).toBe('0 %, about 5 min in all: building etcd 1.2.3, compiling');
    share.add(news('etcd', 'building', 50));
    // Half of 60 of 300 seconds.
    expect(share.message(31_000)).toBe('10 %, about 5 min left: building etcd 1.2.3, compiling');
    share.add(news('etcd', 'ready', undefined, 'built'));
    share.add(news('kube-apiserver', 'building', 90));
    expect(share.message(281_000)).toBe('92 %, about 25 s left: building kube-apiserver 1.2.3, compiling');
    expect(share.isComplete).toBe(false);
    share.add(news('kube-apiserver', 'ready', undefined, 'built'));
    expect([share.isComplete, share.summary]).toEqual([true, '2 built']);
  });

  it('counts what programs of one version share with the first of them that is built', () => {
    const share = new FetchShare(0);
    for (const name of ['kube-apiserver', 'kube-controller-manager'] as const)
      share.add(news(name, 'waiting'));
    share.add(news('kube-controller-manager', 'building', 0));
    expect(share.message(1_000)).toMatch(/^0 %, about 5 min in all/);
    share.add(news('kube-controller-manager', 'building', 50));
    expect(share.message(120_000)).toMatch(/^40 %, about 3 min left/);
    share.add(news('kube-controller-manager', 'ready', undefined, 'built'));
    share.add(news('kube-apiserver', 'building', 0));
    expect(share.message(240_000)).toMatch(/^80 %, about 60 s left/);
  });

  it('does not go back when a build begins anew with what another stage had begun', () => {
    const share = new FetchShare(0);
    share.add(news('etcd', 'downloading', 80));
    share.add(news('etcd', 'building'));
    expect(share.message(60_000)).toMatch(/^80 %/);
  });
});
