import { expect, it } from 'vitest';
import { allKinds } from './registry.ts';

it('has pods looked at after the policies that isolate them, and before everything else in their namespaces', () => {
  const order = allKinds.map(({ name }) => name);
  const before = order.slice(0, order.indexOf('pods'));
  expect(before).toEqual(['namespaces', 'networkpolicies']);
});
