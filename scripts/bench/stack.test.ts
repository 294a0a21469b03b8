import { describe, expect, it } from 'vitest';
import { preflight } from './stack.ts';

describe('what a run needs of its machine', () => {
  it('is no matter where there is enough, or nobody knows', () => {
    expect(preflight(100, { inotifyInstances: 8_192, availableBytes: 64e9 })).toEqual([]);
    expect(preflight(100, {})).toEqual([]);
  });

  it('ends it before it begins where tenants could not start, with the remedy', () => {
    expect(() => preflight(100, { inotifyInstances: 128 })).toThrow('fs.inotify.max_user_instances=8192');
    expect(preflight(5, { inotifyInstances: 128 })).toEqual([]);
  });

  it('is a warning where memory may not do', () => {
    expect(preflight(100, { availableBytes: 16e9 })).toEqual([expect.stringContaining('21.8 GB')]);
  });
});
