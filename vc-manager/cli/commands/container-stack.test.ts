import { expect, it } from 'vitest';
import { resources } from '../../../kube/index.ts';
import { CommandWorld, runCaptured } from '../testing/captured.ts';

const lease = (holderIdentity: string, renewTime: string) => ({
  metadata: { namespace: 'skerry-system', name: 'skerry-vc-manager' },
  spec: { holderIdentity, renewTime },
});

it('is healthy while a manager renews its lease, and names the last one when none does', async () => {
  await using world = await CommandWorld.start();
  const { server } = world;
  server.put(resources.leases, lease('a', new Date().toISOString()));
  expect(await world.run('container-stack', 'healthy')).toMatchObject({ exitCode: 0, stdout: 'a works\n' });
  for (const gone of [lease('b', '2026-01-01T00:00:00Z'), lease('', new Date().toISOString())]) {
    server.put(resources.leases, gone);
    expect((await world.run('container-stack', 'healthy')).exitCode).not.toBe(0);
  }
});

it.each([
  ['--port', 'nosuch=1'],
  ['--port', 'super-cluster=0'],
  ['--port', 'super-cluster=65536'],
  ['--port', 'super-cluster'],
  ['--syncer-ports', '1'],
  ['--syncer-ports', '1,0'],
  ['--syncer-ports', '1,65536'],
  ['--syncer-ports', '1,2,3'],
])('refuses %s %s', async (option, value) => {
  expect((await runCaptured(['container-stack', 'prepare', `${option}=${value}`])).exitCode).toBe(2);
});
