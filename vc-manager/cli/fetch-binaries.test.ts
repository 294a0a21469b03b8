import { describe, expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import type { BinaryProgress } from '../binaries/index.ts';
import { showFetching } from './fetch-binaries.ts';
import { PlainProgress } from './progress.ts';
import { Captured } from './testing/captured.ts';

function world() {
  const clock = new FakeClock();
  const log = new Captured();
  const show = showFetching(new PlainProgress(log, clock), clock);
  const tell = (name: BinaryProgress['name'], rest: Pick<BinaryProgress, 'stage' | 'message' | 'percent'>) =>
    show({ name, version: '1.2.3', elapsedMs: 0, ...rest });
  const lines = () => log.text.trimEnd().split('\n');
  return { clock, tell, lines };
}

describe('what a log is told of programs that are fetched', () => {
  it('is a line every ten seconds, also while a build is silent', async () => {
    const { clock, tell, lines } = world();
    tell('etcd', { stage: 'building', message: 'linking', percent: 50 });
    for (let second = 0; second < 25; second++) await clock.advance(1_000);
    expect(lines()).toEqual([
      'Fetching Kubernetes ...',
      expect.stringMatching(/^Fetching Kubernetes: 50 %, .*building etcd 1.2.3, linking \(0.0 s\)$/),
      expect.stringMatching(/^Fetching Kubernetes: 50 %, about 10 s left: .* \(10 s\)$/),
      expect.stringMatching(/^Fetching Kubernetes: 50 %, about 20 s left: .* \(20 s\)$/),
    ]);
  });

  it('is no more than that while messages of many kinds come', async () => {
    const { clock, tell, lines } = world();
    const kinds = ['resolving modules', 'fetching modules (3)', 'compiling'];
    for (let second = 0; second < 20; second++) {
      for (const message of kinds) tell('etcd', { stage: 'building', message: `${message}, ${second}` });
      await clock.advance(1_000);
    }
    expect(lines()).toHaveLength(1 + 3);
  });

  it('ends when all are there or cannot be had', async () => {
    const { clock, tell, lines } = world();
    tell('etcd', { stage: 'building', message: 'linking' });
    tell('kwok', { stage: 'downloading', message: '1 of 2 MB' });
    tell('etcd', { stage: 'failed', message: 'failed' });
    expect(clock.sleeping).toBe(1);
    tell('kwok', { stage: 'ready', message: 'downloaded' });
    expect(lines().at(-1)).toMatch(/^Fetching Kubernetes: 1 failed, 1 downloaded/);
    expect(clock.sleeping).toBe(0);
  });
});
