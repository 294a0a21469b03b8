import { expect, it } from 'vitest';
import { FakeClock } from '../../kube/testing/index.ts';
import { testTenant } from '../kinds/testing.ts';
import { Health } from './health.ts';

type Options = ConstructorParameters<typeof Health>[0];

const nothing = async (): Promise<void> => undefined;

/** A tenant in whose parts all is well, and the names of what was written about it. */
function health(usage: object | undefined): { checked: () => Promise<boolean>; written: string[] } {
  const written: string[] = [];
  const note = (what: string) => async () => void written.push(what);
  const options = {
    state: {
      info: testTenant(),
      client: { raw: nothing },
      superCaches: { byIndex: () => [] },
      caches: { store: () => ({ size: 3 }), latestVersion: () => '7' },
    },
    engine: { retryNow: () => undefined, usedBy: () => ({}) },
    status: { condition: note('condition'), usage: note('usage'), observedVersion: note('version') },
    freeze: { answer: nothing, recheck: nothing, recordSuper: note('super cluster') },
    holds: { answer: nothing, recheck: nothing },
    custom: { reconcile: () => undefined, problems: [] },
    calls: { problem: () => undefined },
    latest: () => ({ metadata: {}, status: usage === undefined ? {} : { usage } }),
    isJoined: () => true,
    clock: new FakeClock(),
    logger: { warn: (fields: object) => expect(fields).toBeUndefined() },
  };
  const checks = new Health(options as unknown as Options);
  return { checked: () => checks.check(new AbortController().signal), written };
}

const measured = ['version', 'super cluster', 'usage'];

it('measures a new tenant at the first look', async () => {
  const { checked, written } = health(undefined);
  expect(await checked()).toBe(true);
  expect(written).toEqual(expect.arrayContaining(measured));
});

it('measures one that an earlier syncer has measured at the second look: its pods come first', async () => {
  const { checked, written } = health({ pods: 9 });
  expect(await checked()).toBe(true);
  expect(written.filter((what) => what !== 'condition')).toEqual([]);
  expect(await checked()).toBe(true);
  expect(written).toEqual(expect.arrayContaining(measured));
});
