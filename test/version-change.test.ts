import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { ControlPlaneTemplateSpec } from '../api/control-plane-template.ts';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { startBrowser, whyNoBrowser } from '../dashboard/testing/browser.ts';
import { type KubeObject, resources } from '../kube/index.ts';
import { defaultVersions } from '../vc-manager/binaries/index.ts';
import { startDashboard } from './harness/dashboard.ts';
import { changeVersion, setVersion } from './harness/managers.ts';
import { namespace } from './harness/manifests.ts';
import { Reader } from './harness/reader.ts';
import { type Tenant, World } from './harness/world.ts';

const running = defaultVersions.kubernetes;
/** Full versions whose programs are there, such as `1.36.1,1.35.4,1.34.4`. */
const earlier = (process.env['SKERRY_E2E_EARLIER_VERSIONS'] ?? '').split(',').filter((each) => each !== '');
const minor = (version: string): number => Number(version.split('.')[1]);
/** A change goes one minor version up at most; older ones are only started. */
const changed = earlier.filter((version) => minor(version) >= minor(running) - 1);
const anotherMinor = changed.filter((version) => minor(version) !== minor(running));
const started = earlier.filter((version) => minor(version) < minor(running) - 1);

const noBrowser = whyNoBrowser();
const unlessThere = noBrowser === undefined ? '' : ` (${noBrowser})`;

describe('real builds of other versions', () => {
  let world: World;

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(() => world?.close());

  const nameOf = (version: string): string => `build-${version.replaceAll('.', '-')}`;

  it.each(changed)(
    'are left for the default version by command, which says first what it would do, while a client is at work: %s',
    async (from) => {
      const name = nameOf(from);
      const upgrade = async (...options: string[]): Promise<string> => {
        const { exitCode, stdout, stderr } = await world.cli(['upgrade', name, ...options]);
        expect(exitCode, stderr).toBe(0);
        return stdout.trim();
      };
      let done: Promise<string> | undefined;
      const tenant = await changeVersion(world, name, {
        from,
        to: running,
        whileEarlier: async (made) => {
          expect(await serverVersion(made)).toBe(`v${from}`);
          expect(await upgrade('--dry-run')).toContain(`from ${from} to ${running} (dry run)`);
          expect((await world.virtualCluster(name)).spec?.version).toBe(from);
        },
        ask: () => {
          done = upgrade('--wait');
          // Looked at below; until then the change itself is waited for.
          done.catch(() => undefined);
        },
      });
      expect(await done).toBe(`${name} runs ${running}`);
      expect(await serverVersion(tenant)).toBe(`v${running}`);
      expect(await upgrade()).toBe(`${name} runs ${running} already`);
    },
  );

  it.skipIf(noBrowser !== undefined).each(anotherMinor)(
    `are left for the default version in the dashboard: %s${unlessThere}`,
    async (from) => {
      const name = `page-${from.replaceAll('.', '-')}`;
      const [tenant, dashboard, browser] = await Promise.all([
        world.createTenant(name, '--version', from),
        startDashboard(Reader.of(world, 'page-reader')),
        startBrowser(),
      ]);
      try {
        const page = await browser.newPage();
        page.setDefaultTimeout(120_000);
        await page.goto(dashboard.link);
        await page.getByRole('link', { name, exact: true }).click();
        await page.getByText(from, { exact: true }).first().waitFor();
        const dialog = page.getByRole('dialog');
        await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
        await dialog.getByText(`would go from ${from} to ${running}`).waitFor();
        await dialog.getByRole('button', { name: 'Upgrade', exact: true }).click();
        await dialog.waitFor({ state: 'detached' });
        await page
          .getByRole('row', { name: /^version-change/ })
          .getByText('Succeeded')
          .waitFor();
        await page.locator('header.card .mark').getByText('Ready').waitFor();
        await page.getByRole('definition').getByText(running, { exact: true }).waitFor();
        expect(await serverVersion(tenant)).toBe(`v${running}`);
        await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
        await dialog.getByText(`${name} runs ${running} already`).waitFor();
        expect(await dialog.getByRole('button', { name: 'Upgrade', exact: true }).isDisabled()).toBe(true);
      } finally {
        await Promise.all([browser.close(), dashboard.stop()]);
      }
    },
  );

  it.each(anotherMinor)(
    'are gone back to by itself when the new version does not start: %s',
    async (from) => {
      const broken = 'version-change-broken';
      const template = await world.superCluster.client.get<KubeObject & { spec: ControlPlaneTemplateSpec }>(
        resources.controlPlaneTemplates,
        { name: `v1-${minor(running)}` },
      );
      const components = template.spec.components.map((each) =>
        each.name === 'kube-apiserver' ? { ...each, args: { ...each.args, 'no-such-flag': 'x' } } : each,
      );
      await world.superCluster.apply({
        apiVersion: 'skerry.dev/v1alpha1',
        kind: 'ControlPlaneTemplate',
        metadata: { name: broken },
        spec: { ...template.spec, components },
      });
      const name = `back-${from.replaceAll('.', '-')}`;
      const tenant = await world.createTenant(name, '--version', from);
      await tenant.apply(namespace('before'));
      await world.superCluster.client.patch(
        resources.virtualClusters,
        tenant.ref,
        { spec: { version: running, template: broken } },
        { type: 'merge' },
      );
      const { status } = await world.superCluster.until<VirtualCluster, VirtualCluster>(
        { resource: resources.virtualClusters, ...tenant.ref, what: 'the way back', timeoutMs: 150_000 },
        ([vc]) => vc?.status?.phase === 'Ready' && vc.status.jobs?.held?.why !== undefined && vc,
      );
      expect(status?.version).toBe(from);
      expect(status?.jobs?.history?.[0]).toMatchObject({ kind: 'version-change', result: 'Failed' });
      expect(await serverVersion(tenant)).toBe(`v${from}`);
      expect(await tenant.kubectl('get', 'namespace', 'before')).toContain('Active');
      await world.superCluster.kubectl('delete', 'controlplanetemplate', broken);
    },
  );

  it.each(changed)('are not gone back to: %s', async (from) => {
    const { exitCode, stderr } = await setVersion(world, nameOf(from), from);
    expect(exitCode).not.toBe(0);
    expect(stderr).toMatch(/cannot be downgraded to an earlier (minor|patch) version/);
    expect((await world.virtualCluster(nameOf(from))).spec?.version).toBe(running);
  });

  it.each(started)('start from their own template: %s', async (version) => {
    const tenant = await world.createTenant(nameOf(version), '--version', version);
    expect(await serverVersion(tenant)).toBe(`v${version}`);
  });
});

async function serverVersion(tenant: Tenant): Promise<string> {
  const answer = JSON.parse(await tenant.kubectl('version', '-o', 'json')) as {
    serverVersion: { gitVersion: string };
  };
  return answer.serverVersion.gitVersion;
}
