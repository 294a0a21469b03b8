import { describe, expect, it } from 'vitest';
import { tooFewOpenFiles } from './open-files.ts';

describe('the limit of open files', () => {
  it('is enough for two of each connection, clients that say nothing yet, and what else is open', () => {
    expect(tooFewOpenFiles(22_048, 10_000)).toBeUndefined();
    expect(tooFewOpenFiles(undefined, 10_000)).toBeUndefined();
    expect(tooFewOpenFiles(Number.POSITIVE_INFINITY, 10_000)).toBeUndefined();
  });

  it('that is too low is told, with what to do about it', () => {
    const problem = tooFewOpenFiles(20_000, 10_000);
    expect(problem).toMatch(/^20000 files may be open, and --connections 10000 can take 22048/);
    expect(problem).toMatch(/Raise the hard limit .*, or start the gateway with --connections 8976$/);
    expect(tooFewOpenFiles(20_000, 8_976)).toBeUndefined();
    expect(tooFewOpenFiles(1_024, 10_000)).not.toMatch(/or start the gateway/);
  });
});
