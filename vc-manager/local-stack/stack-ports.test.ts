import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stackPortNames, stackPorts } from './stack-ports.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'skerry-ports-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('stackPorts', () => {
  it('keeps what it has chosen once', async () => {
    const file = join(directory, 'deep', 'ports.json');
    const first = await stackPorts(file);
    expect(new Set(Object.values(first)).size).toBe(stackPortNames.length);
    expect(await stackPorts(file)).toEqual(first);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(first);
  });

  it('passes over ports that are in use, and starts again at the lowest when it comes to the end', async () => {
    const { 'super-cluster': taken } = await stackPorts(join(directory, 'probe.json'));
    const holder = createServer();
    await once(holder.listen(taken, '127.0.0.1'), 'listening');
    try {
      const ports = await stackPorts(join(directory, 'ports.json'), () => (taken - 20_700) / 299);
      expect(Object.values(ports)).not.toContain(taken);
      const last = await stackPorts(join(directory, 'last.json'), () => 0.9999);
      expect(Math.min(...Object.values(last))).toBeLessThan(20_900);
    } finally {
      await new Promise((resolve) => holder.close(resolve));
    }
  });
});
