import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { defaultVersions } from '../vc-manager/binaries/index.ts';
import { changeVersion, setVersion } from './harness/managers.ts';
import { type Tenant, World } from './harness/world.ts';

const earlier = process.env['SKERRY_E2E_EARLIER_VERSION'];
const running = defaultVersions.kubernetes;

describe.skipIf(!earlier)(
  `a change between two builds${earlier ? '' : ' (skipped: SKERRY_E2E_EARLIER_VERSION names no earlier version)'}`,
  () => {
    let world: World;
    let tenant: Tenant;

    beforeAll(() => {
      world = new World(inject('stack'));
    });

    afterAll(() => world?.close());

    const serverVersion = async (of: Tenant): Promise<string> =>
      (JSON.parse(await of.kubectl('version', '-o', 'json')) as { serverVersion: { gitVersion: string } })
        .serverVersion.gitVersion;

    it('takes a running tenant along while a client is at work', async () => {
      const from = earlier ?? '';
      tenant = await changeVersion(world, 'two-builds', {
        from,
        to: running,
        whileEarlier: async (made) => expect(await serverVersion(made)).toBe(`v${from}`),
      });
      expect(await serverVersion(tenant)).toBe(`v${running}`);
    });

    it('has no way back', async () => {
      const { exitCode, stderr } = await setVersion(world, tenant.name, earlier ?? '');
      expect(exitCode).not.toBe(0);
      expect(stderr).toMatch(/cannot be downgraded to an earlier (minor|patch) version/);
      expect((await world.virtualCluster(tenant.name)).spec?.version).toBe(running);
    });
  },
);
