import { expect, it } from 'vitest';
import { type DriverName, defaultDriver, driverNames, traitsOf } from './drivers.ts';

it('a driver that is not named, or that only a later version knows, counts as the default', () => {
  expect(driverNames.map((name) => traitsOf(name).exposedBy)).toEqual(['port', 'port', 'service']);
  expect(traitsOf(undefined)).toBe(traitsOf(defaultDriver));
  expect(traitsOf('unikernel' as DriverName)).toBe(traitsOf(defaultDriver));
});
