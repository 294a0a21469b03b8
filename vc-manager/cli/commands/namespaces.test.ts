import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { labelKeys } from '../../../api/labels.ts';
import { resources } from '../../../kube/index.ts';
import { exitCodes } from '../errors.ts';
import { CommandWorld } from '../testing/captured.ts';

let world: CommandWorld;
beforeEach(async () => {
  world = await CommandWorld.start();
});
afterEach(() => world[Symbol.asyncDispose]());

const startedAt = '2026-01-01T00:00:00.000Z';
const jobs = { current: { kind: 'provision', id: 'j1', startedAt, attempts: 1 } } as const;

describe('a command about all tenants', () => {
  it.each(['list', 'top', 'jobs'])('%s leaves out what waits for an owner', async (command) => {
    world.put('blue', { jobs });
    const namespace = 'skerry-system';
    const metadata = { name: 'warm-1', namespace, uid: 'w', labels: { [labelKeys.warm]: '' } };
    world.server.put(resources.virtualClusters, { metadata, spec: {}, status: { jobs } });
    const all = await world.run(command);
    expect(all.stdout).toContain('blue');
    expect(all.stdout).not.toContain('warm-1');
    expect((await world.run(command, '-n', namespace)).stdout).toContain('warm-1');
  });
});

it('list says how to make a tenant where none was found', async () => {
  world.server.put(resources.namespaces, { metadata: { name: 'teams' } });
  expect((await world.run('list', '-n', 'teams')).stderr).toContain(
    '"vc-manager create NAME -n teams --wait"',
  );
  expect((await world.run('list')).stderr).toContain('"vc-manager create NAME --wait"');
});

describe('somebody who has rights in one namespace', () => {
  const forbidden = { kind: 'status', code: 403, reason: 'Forbidden' } as const;

  it.each(['list', 'top', 'jobs'])('is told by %s to name it', async (command) => {
    world.server.inject({ verb: 'list', plural: 'virtualclusters', fault: forbidden });
    expect(await world.run(command)).toMatchObject({
      exitCode: exitCodes.forbidden,
      stderr: expect.stringContaining('-n NAMESPACE'),
    });
  });

  it('is told of a tenant that is not there, and nothing of other namespaces', async () => {
    world.server.inject({ verb: 'list', plural: 'virtualclusters', fault: forbidden });
    const { exitCode, stderr } = await world.run('describe', 'red');
    expect(exitCode).toBe(exitCodes.notFound);
    expect(stderr.trim()).toMatch(/no VirtualCluster "red" in namespace default$/);
  });

  it.each([
    ['diff', 'blue'],
    ['trace', 'web', '-t', 'blue'],
  ])('hears from %s what it needs to find a syncer', async (...words) => {
    world.put('blue');
    world.server.inject({ verb: 'list', plural: 'leases', fault: forbidden });
    const { exitCode, stderr } = await world.run(...words);
    expect(exitCode).toBe(exitCodes.forbidden);
    expect(stderr).toContain('list leases in skerry-system');
    expect(stderr).toContain('--syncer http://HOST:PORT');
  });
});
