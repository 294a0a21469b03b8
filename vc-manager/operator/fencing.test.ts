import { describe, expect, it } from 'vitest';
import { OperatorError } from './errors.ts';
import { assertHeld, fencedDatastore, fencedDriver } from './fencing.ts';
import { FakeDatastore, FakeDriver } from './testing/world.ts';

const { signal } = new AbortController();
const plan = { id: 'blue', labels: {}, components: [] };

describe('a manager whose lease has lapsed', () => {
  const lapsed = { holdsNow: () => false };

  it('starts, stops and removes nothing any more', async () => {
    const driver = new FakeDriver();
    await driver.ensure(plan, { signal });
    const guarded = fencedDriver(driver, lapsed);
    await expect(guarded.ensure(plan, { signal })).rejects.toThrow(OperatorError);
    await expect(guarded.stop('blue', { signal })).rejects.toThrow('another manager');
    await expect(guarded.remove('blue', { signal })).rejects.toThrow('another manager');
    expect(driver.ensured.length).toBe(1);
    let holds = true;
    driver.beforeEnsure = (_plan, { beforeWrite }) => {
      holds = false;
      beforeWrite?.();
    };
    const leading = fencedDriver(driver, { holdsNow: () => holds });
    await expect(leading.ensure(plan, { signal })).rejects.toThrow('another manager');
    expect(await guarded.list()).toEqual(['blue']);
  });

  it('changes nothing in the datastore, where it may look', async () => {
    const datastore = new FakeDatastore();
    const guarded = fencedDatastore(datastore, lapsed);
    await expect(guarded.ensureTenant('blue')).rejects.toMatchObject({ code: 'NoLongerLeading' });
    await expect(guarded.removeTenant('blue')).rejects.toMatchObject({ code: 'NoLongerLeading' });
    expect([...datastore.seen]).toEqual([]);
  });

  it('stops in the middle of a removal, before the next write', async () => {
    const datastore = new FakeDatastore();
    await datastore.ensureTenant('blue');
    let holds = true;
    datastore.beforeRemove = () => {
      holds = false;
    };
    const guarded = fencedDatastore(datastore, { holdsNow: () => holds });
    await expect(guarded.removeTenant('blue')).rejects.toMatchObject({ code: 'NoLongerLeading' });
    expect([...datastore.tenants]).toEqual(['blue']);
  });

  it('is asked anew each time', () => {
    let holds = true;
    const leadership = { holdsNow: () => holds };
    assertHeld(leadership);
    holds = false;
    expect(() => assertHeld(leadership)).toThrow('another manager');
  });
});
