import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../kube/index.ts';
import { confirm } from './command-line.ts';
import type { Cli } from './context.ts';
import { Captured } from './testing/captured.ts';

function terminal(isTTY = true) {
  const stdin = Object.assign(new PassThrough(), { isTTY });
  const stderr = new Captured({ isTTY });
  const abort = new AbortController();
  const cli: Cli = {
    env: {},
    ...{ stdin, stderr, stdout: new Captured(), clock: systemClock, signal: abort.signal },
    onSignal: () => undefined,
    outlivesReader: () => undefined,
    setExitCode: () => undefined,
  };
  return { cli, stdin, stderr, abort };
}

describe('a question before something is destroyed', () => {
  it.each(['y\n', 'YES\n', ' yes \n'])('goes on for %j', async (answer) => {
    const { cli, stdin, stderr } = terminal();
    stdin.write(answer);
    await confirm(cli, {}, 'Delete all?');
    expect(stderr.text).toContain('Delete all? [y/N]');
  });

  it.each(['\n', 'n\n', 'yesterday\n'])('ends with nothing done for %j', async (answer) => {
    const { cli, stdin } = terminal();
    stdin.write(answer);
    await expect(confirm(cli, {}, 'Delete all?')).rejects.toMatchObject({ code: 'Interrupted' });
  });

  it('ends with nothing done when it is interrupted', async () => {
    const { cli, abort } = terminal();
    const asked = confirm(cli, {}, 'Delete all?');
    const reason = new Error('Ctrl-C');
    abort.abort(reason);
    await expect(asked).rejects.toBe(reason);
  });

  it('is a usage error where nobody can be asked', async () => {
    const { cli, stderr } = terminal(false);
    await expect(confirm(cli, {}, 'Delete all?')).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('--yes'),
    });
    expect(stderr.text).toBe('');
  });

  it.each([true, false])('is not asked with --yes (on a terminal: %s)', async (isTTY) => {
    const { cli, stderr } = terminal(isTTY);
    await confirm(cli, { yes: true }, 'Delete all?');
    expect(stderr.text).toBe('');
  });
});
