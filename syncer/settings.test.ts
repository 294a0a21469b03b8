import { expect, it } from 'vitest';
import { localWorkers } from './settings.ts';

it('the syncer of one machine has six workers for each processor, within limits', () => {
  expect([1, 2, 4, 8, 64].map(localWorkers)).toEqual([12, 12, 24, 48, 60]);
});
