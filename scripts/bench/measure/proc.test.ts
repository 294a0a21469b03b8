import { describe, expect, it } from 'vitest';
import { parseAge, parseMachineTime, parseMemory, parseProcessTime } from './proc.ts';

describe('the time of a process', () => {
  it('is user plus system time, whatever the process is called', () => {
    const rest = 'S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 7 0 100 1000 200';
    expect(parseProcessTime(`7 (odd) name) 1 2) ${rest}`)).toBe(3);
  });

  it('has begun so many ticks after the machine', () => {
    const rest = 'S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 7 0 100 1000 200';
    expect(parseAge(`7 (odd) name) 1 2) ${rest}`, '3.25 6.00\n')).toBe(2_250);
  });
});

describe('the memory of a process', () => {
  it('adds clean and dirty pages, and tells private from shared ones', () => {
    const rollup = [
      '00400000-7fff [rollup]',
      'Rss:                 100 kB',
      'Pss:                  60 kB',
      'Pss_Dirty:             1 kB',
      'Shared_Clean:         30 kB',
      'Shared_Dirty:         10 kB',
      'Private_Clean:        20 kB',
      'Private_Dirty:        40 kB',
    ].join('\n');
    expect(parseMemory(rollup)).toEqual({
      rss: 100 * 1024,
      pss: 60 * 1024,
      private: 60 * 1024,
      shared: 40 * 1024,
    });
  });
});

describe('the time of the machine', () => {
  it('is what all cores were busy, without idling, waiting and what was stolen', () => {
    const stat = 'cpu  100 10 20 5000 70 3 7 60 0 0\ncpu0 50 5 10 2500 35 1 3 30 0 0\n';
    expect(parseMachineTime(stat)).toEqual({ busySeconds: 1.4, stolenSeconds: 0.6 });
  });
});
