import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { startBrowser, whyNoBrowser } from '../dashboard/testing/browser.ts';
import { defaultVersions } from '../vc-manager/binaries/index.ts';
import { startDashboard } from './harness/dashboard.ts';
import { changeVersion, serverVersion, setVersion, upgradeAndRollBack } from './harness/managers.ts';
import { namespace } from './harness/manifests.ts';
import { patienceMs } from './harness/poll.ts';
import { Reader } from './harness/reader.ts';
import { earlierBuilds, minorOf, upgradableBuilds } from './harness/real-builds.ts';
import { World } from './harness/world.ts';

const running = defaultVersions.kubernetes;
const anotherMinor = upgradableBuilds.filter((version) => minorOf(version) !== minorOf(running));
const started = earlierBuilds.filter((version) => !upgradableBuilds.includes(version));

const noBrowser = whyNoBrowser();
const unlessThere = noBrowser === undefined ? '' : ` (${noBrowser})`;

describe('real builds of other versions', () => {
  let world: World;

  beforeAll(() => {
    world = new World(inject('stack'));
  });

  afterAll(() => world?.close());

  const nameOf = (version: string): string => `build-${version.replaceAll('.', '-')}`;

  it.each(upgradableBuilds)(
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
        page.setDefaultTimeout(patienceMs);
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
      const tenant = await world.createTenant(`back-${from.replaceAll('.', '-')}`, '--version', from);
      await tenant.apply(namespace('before'));
      await upgradeAndRollBack(world, tenant);
      expect(await tenant.kubectl('get', 'namespace', 'before')).toContain('Active');
    },
  );

  it.each(upgradableBuilds)('are not gone back to: %s', async (from) => {
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
