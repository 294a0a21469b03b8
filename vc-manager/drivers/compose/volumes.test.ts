import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { tar } from './volumes.ts';

describe('tar', () => {
  it('is understood by tar', () => {
    const long = `${'a'.repeat(90)}/${'b'.repeat(90)}`;
    const input = tar([
      { path: 'files/', mode: 0o700, owner: 65_532 },
      { path: 'files/one', content: 'x'.repeat(512), mode: 0o600, owner: 65_532 },
      { path: 'files/none', content: '', mode: 0o640, owner: 0 },
      { path: long, content: 'è', mode: 0o600, owner: 0 },
    ]);
    const list = execFileSync('tar', ['--list', '--verbose', '--numeric-owner'], { input, encoding: 'utf8' });
    expect(
      list
        .trim()
        .split('\n')
        .map((line) => line.split(/\s+/).filter((_, i) => i < 3 || i > 4)),
    ).toEqual([
      ['drwx------', '65532/65532', '0', 'files/'],
      ['-rw-------', '65532/65532', '512', 'files/one'],
      ['-rw-r-----', '0/0', '0', 'files/none'],
      ['-rw-------', '0/0', '2', long],
    ]);
    const print = ['--extract', '--to-stdout', long];
    expect(execFileSync('tar', print, { input, encoding: 'utf8' })).toBe('è');
  });

  it('says which path does not fit', () => {
    expect(() => tar([{ path: 'a'.repeat(101), mode: 0o600, owner: 0 }])).toThrow(/too long for an archive/);
  });
});
