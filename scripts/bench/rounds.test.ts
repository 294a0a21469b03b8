import { describe, expect, it } from 'vitest';
import {
  componentMsPer,
  cpuColumns,
  cpuMsPer,
  direct,
  inTurn,
  neverReady,
  podsPerSecond,
  readyTimes,
  tenants,
} from './rounds.ts';

describe('the order of sides', () => {
  it('is reversed from repeat to repeat, so that none is always the first', () => {
    const order = [0, 1, 2].map((repeat) => inTurn([direct, tenants], repeat).map(({ name }) => name));
    expect(order).toEqual([
      ['direct', 'tenants'],
      ['tenants', 'direct'],
      ['direct', 'tenants'],
    ]);
  });
});

const pods = [
  { target: 'a', createdMs: 100, acceptedMs: 110, readyMs: 300 },
  { target: 'a', createdMs: 150, acceptedMs: 160, readyMs: 1100 },
  { target: 'b', createdMs: 200 },
];

describe('the figures of a round', () => {
  it('measure each pod from its own create call', () => {
    expect(readyTimes(pods)).toMatchObject({ count: 2, p50: 200, max: 950 });
  });

  it('count pods from the first create call until the last pod is Ready', () => {
    expect(podsPerSecond(pods)).toBe(2);
  });

  it('do not hide pods that never became Ready', () => {
    expect(neverReady(pods)).toBe(1);
  });
});

describe('CPU time per pod', () => {
  const usage = (syncer: number) => ({
    elapsedSeconds: 1,
    load: 2,
    othersSeconds: 1,
    cpuSeconds: { 'super cluster': 1, syncer },
    componentSeconds: {
      'super cluster/etcd': 0.4,
      'super cluster/kube-apiserver': 0.6,
      'tenants/datastore': 0.02,
    },
  });
  const cells = cpuMsPer([3, 1, 2].map((syncer) => ({ usage: usage(syncer), count: 100 })));
  const cell = (column: (typeof cpuColumns)[number]) => cells[cpuColumns.indexOf(column)];

  it('is the median over rounds, for each group and for all together', () => {
    expect(cell('syncer')).toBe(20);
    expect(cell('super cluster')).toBe(10);
    expect(cell('all')).toBe(30);
    expect(cell('rest of the machine')).toBe(10);
    expect(cell('load')).toBe(2);
  });

  it('is told for each component that matters, the largest first', () => {
    expect(componentMsPer([{ usage: usage(1), count: 100 }])).toEqual([
      ['super cluster/kube-apiserver', 6],
      ['super cluster/etcd', 4],
    ]);
  });

  it('is no number for groups without processes', () => {
    expect(cell('tenants')).toBeNaN();
  });
});
