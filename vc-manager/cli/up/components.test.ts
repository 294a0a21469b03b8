import { expect, it } from 'vitest';
import { localWorkers } from './components.ts';

it('the syncer of the local stack has six workers for each processor, within limits', () => {
  expect([1, 2, 4, 8, 64].map(localWorkers)).toEqual([12, 12, 24, 48, 60]);
});
