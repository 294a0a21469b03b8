import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { Store } from '../../kube/index.ts';
import { FakeClock } from '../../kube/testing/fake-clock.ts';
import { DatastoreWatch } from './datastore-watch.ts';
import { FakeDatastore } from './testing/world.ts';

const GiB = 1024 ** 3;

function watched() {
  const clock = new FakeClock();
  const datastore = new FakeDatastore();
  const lines: string[] = [];
  const logger = pino({ level: 'error' }, { write: (line: string) => void lines.push(line) });
  const datastoreGrowth = { sinceMs: 0 };
  const virtualClusters = new Store<VirtualCluster>();
  let measured = 0;
  const watch = new DatastoreWatch(
    { datastore, clock, logger, datastoreGrowth, virtualClusters },
    () => measured++,
  );
  const look = async (bytesInUse: number, revision: number): Promise<void> => {
    datastore.total = { bytesInUse, quotaBytes: 8 * GiB, revision };
    await watch.look(AbortSignal.timeout(60_000));
    await clock.advance(5_000);
  };
  return { look, clock, virtualClusters, datastore, datastoreGrowth, lines, measured: () => measured };
}

describe('DatastoreWatch', () => {
  it('has tenants measured when the datastore grows fast, once for each step', async () => {
    const { look, measured, datastoreGrowth } = watched();
    await look(GiB, 1);
    await look(1.2 * GiB, 2);
    expect(measured()).toBe(0);
    await look(1.26 * GiB, 3);
    expect(measured()).toBe(1);
    expect(datastoreGrowth.sinceMs).toBeGreaterThan(0);
    await look(1.4 * GiB, 4);
    expect(measured()).toBe(1);
    // What was compacted does not hide what grows from there.
    await look(0.5 * GiB, 5);
    await look(0.8 * GiB, 6);
    expect(measured()).toBe(2);
  });

  it('compacts history early where space is short, and keeps the last twenty seconds of it', async () => {
    const { look, datastore } = watched();
    for (let at = 1; at <= 6; at++) await look(GiB, 100 * at);
    expect(datastore.compacted).toEqual([]);
    await look(2.1 * GiB, 700);
    expect(datastore.compacted).toEqual([300]);
    await look(2.1 * GiB, 800);
    expect(datastore.compacted).toEqual([300, 400]);
    // Nothing was written: there is nothing to forget.
    for (let at = 0; at < 8; at++) await look(2.1 * GiB, 800);
    expect(datastore.compacted).toEqual([300, 400, 500, 600, 700, 800]);
  });

  it.each([
    [
      'a snapshot',
      (at: string) => ({
        snapshots: { begun: `team/a/${at.slice(0, 19).replaceAll(':', '-')}Z-1a2b.snapshot` },
      }),
    ],
    ['a move', (at: string) => ({ move: { stage: 'copying', from: { datastore: 'shared' }, pausedAt: at } })],
  ])(
    'leaves what %s still reads, for five minutes, and where half of the space is left',
    async (_, status) => {
      const { look, clock, datastore, virtualClusters } = watched();
      const reads = (): void => {
        const vc = { status: status(new Date(clock.now()).toISOString()) };
        virtualClusters.replace([{ ...vc, metadata: { namespace: 'team', name: 'a' } } as VirtualCluster]);
      };
      let revision = 0;
      for (let at = 0; at < 8; at++) await look(2.1 * GiB, ++revision);
      expect(datastore.compacted.at(-1)).toBe(4);
      reads();
      for (let at = 0; at < 59; at++) await look(2.1 * GiB, ++revision);
      expect(datastore.compacted.at(-1)).toBeLessThanOrEqual(8);
      for (let at = 0; at < 3; at++) await look(2.1 * GiB, ++revision);
      expect(datastore.compacted.at(-1)).toBe(revision - 4);
      reads();
      for (let at = 0; at < 8; at++) await look(4.1 * GiB, ++revision);
      expect(datastore.compacted.at(-1)).toBe(revision - 4);
    },
  );

  it('says once that all tenants will be stopped, and what to do', async () => {
    const { look, lines } = watched();
    await look(6.5 * GiB, 1);
    await look(6.6 * GiB, 2);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('81 % full');
    expect(lines[0]).toContain('quota-backend-bytes');
  });
});
