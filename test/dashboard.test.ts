import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import type { VirtualCluster } from '../api/virtual-cluster.ts';
import { startBrowser, whyNoBrowser } from '../dashboard/testing/browser.ts';
import { connectionFromSecret, isNotFound, type KubeObject, resource, resources } from '../kube/index.ts';
import { scriptRunBy } from '../scripts/docs-commands.ts';
import { at } from './harness/checker/view.ts';
import type { Cluster } from './harness/cluster.ts';
import { type StartedDashboard, startDashboard } from './harness/dashboard.ts';
import { container, namespace, pod } from './harness/manifests.ts';
import { patienceMs, poll } from './harness/poll.ts';
import { suspendComponent } from './harness/processes.ts';
import { pageOf, Reader } from './harness/reader.ts';
import { type Tenant, World } from './harness/world.ts';

const rbac = 'rbac.authorization.k8s.io';
const clusterRoles = resource(rbac, 'v1', 'clusterroles', 'ClusterRole', false);
const roleBindings = resource(rbac, 'v1', 'clusterrolebindings', 'ClusterRoleBinding', false);
const accessReviews = resource(
  'authorization.k8s.io',
  'v1',
  'subjectaccessreviews',
  'SubjectAccessReview',
  false,
);

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

const missing = whyNoBrowser();
const desktop = { width: 1_280, height: 900 };

describe.skipIf(missing !== undefined)(
  `the dashboard in a browser${missing === undefined ? '' : ` (${missing})`}`,
  () => {
    let world: World;
    /** Is there before anybody looks. */
    let there: Tenant;
    /** Made and deleted by way of the page. */
    let tenant: Tenant;
    let browser: Browser;
    let dashboard: StartedDashboard;
    let operator: Page;
    /** What browsers have complained about. */
    const complaints: string[] = [];

    beforeAll(async () => {
      world = new World(inject('stack'));
      browser = await startBrowser();
      // Of an earlier run, on a stack that outlived it.
      await world.cli(['delete', 'dash-blue', '--yes', '--wait', '--ignore-not-found']);
      [there, dashboard] = await Promise.all([
        world.sharedTenant('dashboard'),
        startDashboard(Reader.of(world), documentedCommand()),
      ]);
      operator = await visit(dashboard.link);
    });
    afterAll(async () => {
      await browser?.close();
      await dashboard?.stop();
      if (world !== undefined) await removeAccounts(world.superCluster);
      await world?.close();
    });

    /** In a browser that knows nothing of the others. */
    async function visit(address: string): Promise<Page> {
      const page = await browser.newPage({ viewport: desktop });
      page.setDefaultTimeout(patienceMs);
      page.on('pageerror', ({ message, stack }) => complaints.push(stack ?? message));
      page.on('console', (message) => {
        // A refused request is a line in the console of its own accord.
        if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
          complaints.push(message.text());
      });
      await page.goto(address);
      return page;
    }

    async function signIn(token: string, of = ''): Promise<Page> {
      const page = await visit(dashboard.origin);
      await page.locator('[name=token]').fill(token);
      await page.locator('[name=tenant]').fill(of);
      await page.getByRole('button', { name: 'Sign in' }).click();
      return page;
    }

    const widthOf = (page: Page) => page.evaluate('document.documentElement.scrollWidth');

    /** Nothing is to the right of a narrow screen. */
    async function expectNarrow(page: Page): Promise<void> {
      await page.setViewportSize({ width: 380, height: 800 });
      expect(await widthOf(page)).toBe(380);
      await page.setViewportSize(desktop);
    }

    const rowOf = (page: Page, name: string) =>
      page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });

    it('is signed in to by the link, which is no longer in the address and does not work twice', async () => {
      await rowOf(operator, there.name).waitFor();
      expect(operator.url()).not.toContain('link');
      const second = await visit(dashboard.link);
      await second.getByRole('alert').filter({ hasText: 'was used already' }).waitFor();
      expect(await second.getByRole('table').count()).toBe(0);
    });

    const state = () => operator.locator('header.card .mark');

    /** Decides for an action in its dialog. */
    async function ask(name: string): Promise<void> {
      const dialog = operator.getByRole('dialog');
      await operator.getByRole('button', { name, exact: true }).click();
      await dialog.getByRole('button', { name, exact: true }).click();
      await dialog.waitFor({ state: 'detached' });
    }

    /** Resolves once the tenant's first job waits for an API server that stands still, to what lets that go on. */
    async function heldProvision(): Promise<() => void> {
      const ref = { namespace: 'default', name: 'dash-blue', what: 'its API server to be started' };
      const id = await world.superCluster.until<string, VirtualCluster>(
        { resource: resources.virtualClusters, ...ref },
        ([vc]) => vc?.status?.jobs?.current?.step === 'control-plane' && vc.status.id,
      );
      return suspendComponent({ stateDir: world.stateDir, id, component: 'kube-apiserver' });
    }

    it('makes a tenant before the eyes of who looks', async () => {
      await operator.goto(`${dashboard.origin}/#/tenants`);
      await operator.getByRole('button', { name: 'Create a tenant' }).click();
      const dialog = operator.getByRole('dialog');
      await dialog.getByLabel('Name', { exact: true }).fill('Upper');
      await dialog.getByRole('button', { name: 'Create' }).click();
      expect(await dialog.isVisible()).toBe(true);
      await dialog.getByLabel('Name', { exact: true }).fill(there.name);
      await dialog.getByRole('button', { name: 'Create' }).click();
      await dialog.getByRole('alert').filter({ hasText: 'exists already' }).waitFor();
      // Looked for before there is anything to see, so that it cannot be over by then.
      const holding = heldProvision();
      holding.catch(() => undefined);
      try {
        await dialog.getByLabel('Name', { exact: true }).fill('dash-blue');
        await dialog.getByRole('button', { name: 'Create' }).click();
        await operator.getByRole('heading', { name: 'dash-blue' }).waitFor();
        await holding;
        await ask('Cancel the job');
      } finally {
        // Also if it is held only now: else it would stand still for the tests to come.
        void holding.then(
          (goOn) => goOn(),
          () => undefined,
        );
      }
      await state().getByText('Cancelled').waitFor();
      const job = operator.getByRole('row', { name: /^provision/ });
      await job.getByRole('cell', { name: 'Cancelled', exact: true }).waitFor();
      await ask('Try again');
      await job.getByText('Succeeded').waitFor();
      await state().getByText('Ready').waitFor();

      tenant = await world.openTenant('dash-blue');
      await tenant.apply(namespace('shop'));
      // A pod that the syncer finds there when it comes is not traced.
      await world.expectAgreement([tenant]);
      await tenant.client.create(resources.pods, pod('shop', 'web'));
      const containers = [container({ securityContext: { privileged: true } })];
      await tenant.client.create(resources.pods, pod('shop', 'greedy', { containers }));
    });

    it('shows each view', async () => {
      const go = (name: string) =>
        operator.getByRole('navigation', { name: 'Views' }).getByRole('link', { name }).click();
      await go('Certificates');
      await rowOf(operator, 'dash-blue')
        .getByText(/^in \d+ d$/)
        .waitFor();
      await go('Syncer');
      await operator.getByRole('row').filter({ hasText: '64 of 64' }).waitFor();
      await rowOf(operator, 'dash-blue').waitFor();
      await go('Jobs');
      await operator.getByRole('heading', { name: 'Jobs under way' }).waitFor();
      await go('Attention');
      await operator.getByRole('heading', { name: 'Attention' }).waitFor();
      await go('Tenants');
      await rowOf(operator, 'dash-blue').getByText('Well').waitFor();
      await operator.getByLabel('Search tenants').fill('nothing is called so');
      await operator.getByText('No tenant is like that.').waitFor();
      await operator.getByLabel('Search tenants').fill('dash-');
      await rowOf(operator, 'dash-blue').getByRole('link').click();
      await operator.getByRole('heading', { name: 'dash-blue' }).waitFor();
      await operator
        .getByRole('row', { name: /^APIServerReady/ })
        .getByText('True')
        .waitFor();
      await operator.getByRole('row', { name: /^requests.memory/ }).waitFor();
      await operator
        .getByRole('row', { name: /^provision/ })
        .getByText('Succeeded')
        .waitFor();
    });

    it("shows a tenant's control plane with its logs, and the way of a pod", async () => {
      await operator.getByRole('button', { name: 'kube-apiserver', exact: true }).click();
      await operator
        .getByRole('log', { name: 'Log of kube-apiserver' })
        .getByText(/Serving securely/)
        .waitFor();
      await operator.getByRole('button', { name: 'shop/web' }).click();
      const steps = operator.getByRole('table', { name: 'Steps of the pod' });
      await steps.getByRole('row', { name: /^create/ }).waitFor();
      expect(await steps.getByRole('row').count()).toBeGreaterThan(5);
      await operator.getByLabel('Pod as namespace/name').fill('shop/greedy');
      await operator.getByRole('button', { name: 'Show its way' }).click();
      await operator.getByRole('figure').getByText('shop/greedy').waitFor();
      await operator.getByText(/Refused: .*privileged/).waitFor();
    });

    it('lets those who may only look do just that', async () => {
      const token = await tokenIn(world.superCluster, 'dash-reader', documentedRules());
      const page = await signIn(token);
      await rowOf(page, 'dash-blue').getByRole('link').click();
      await page.getByText('You may look, and change nothing.').waitFor();
      await page.getByRole('button', { name: 'kube-apiserver', exact: true }).click();
      await page
        .getByRole('log', { name: 'Log of kube-apiserver' })
        .getByText(/Serving securely/)
        .waitFor();
      await page.getByRole('button', { name: 'shop/web' }).click();
      await page.getByRole('table', { name: 'Steps of the pod' }).waitFor();
      for (const name of ['Delete', 'Sleep', 'Kubeconfig', 'Upgrade'])
        expect(await page.getByRole('button', { name, exact: true }).count()).toBe(0);
      expect(await page.getByRole('button', { name: 'Create a tenant' }).count()).toBe(0);
      // Whoever makes the request without the button gets the answer of the API server.
      const forged = await page.evaluate(async () => {
        const { csrf } = (await (await fetch('/api/session')).json()) as { csrf: string };
        const answer = await fetch('/api/tenants/default/dash-blue/act', {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-skerry-csrf': csrf },
          body: '{"do":"sleep"}',
        });
        return { status: answer.status, text: await answer.text() };
      });
      expect(forged.status).toBe(403);
      expect(forged.text).toMatch(/dash-reader.* cannot patch/);
      expect(
        (await world.virtualCluster('dash-blue')).metadata.annotations?.['skerry.dev/sleep'],
      ).toBeUndefined();
    });

    it('shows nothing to those who may not look, and does not let in who is not known', async () => {
      const page = await signIn(await tokenIn(world.superCluster, 'dash-nobody', []));
      await page.getByText('There are no tenants yet.').waitFor();
      await page.goto(`${dashboard.origin}/#/tenants/default/dash-blue`);
      await page.getByRole('alert').filter({ hasText: 'may not see it' }).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.locator('[name=token]').waitFor();
      await expectNarrow(page);
      const stranger = await signIn('no-token-of-anybody');
      await stranger.getByRole('alert').filter({ hasText: 'does not know this token' }).waitFor();
      await expectNarrow(stranger);
    });

    it('is a page of its own for a tenant, with its refusals and nothing of the operator', async () => {
      const wrong = await signIn(await tokenIn(tenant, 'dash-app', []), 'default/dash-blue');
      await wrong.getByRole('alert').filter({ hasText: 'not signed in' }).waitFor();

      const everything = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
      const page = await signIn(await tokenIn(tenant, 'dash-admin', everything), 'default/dash-blue');
      await page.getByRole('heading', { name: 'dash-blue' }).waitFor();
      await page
        .getByRole('row', { name: /^PodSecurity/ })
        .getByText(/privileged/)
        .waitFor();
      await page.getByRole('row', { name: /^requests.memory/ }).waitFor();
      await page.getByRole('button', { name: 'shop/web' }).click();
      await page.getByRole('table', { name: 'Steps of the pod' }).waitFor();
      await page
        .getByRole('table', { name: /^Authorities and certificates/ })
        .getByText('authority')
        .first()
        .waitFor();
      await expectNarrow(page);
      const downloading = page.waitForEvent('download');
      await page.getByRole('button', { name: 'Kubeconfig', exact: true }).click();
      expect((await downloading).suggestedFilename()).toBe('dash-blue.kubeconfig');
      expect(await page.getByRole('navigation', { name: 'Views' }).count()).toBe(0);
      const { items } = await world.superCluster.client.list(resources.nodes);
      const own = await page.evaluate(async () => {
        const paths = ['/api/own', '/api/own/events', '/api/own/pods', '/api/own/pods/shop/web'];
        return (await Promise.all(paths.map(async (path) => (await fetch(path)).text()))).join('');
      });
      expect(items.length).toBeGreaterThan(0);
      for (const { metadata } of items) expect(own).not.toContain(metadata.name);
      expect(own).not.toContain(tenant.id);
      const foreign = await page.evaluate(async () => (await fetch('/api/tenants')).status);
      expect(foreign).toBe(404);
    });

    it('can be used on a narrow screen and by the keyboard alone', async () => {
      await operator.setViewportSize({ width: 380, height: 800 });
      for (const hash of [
        'tenants',
        'attention',
        'jobs',
        'certificates',
        'syncer',
        'tenants/default/dash-blue',
      ]) {
        await operator.goto(`${dashboard.origin}/#/${hash}`);
        await operator.getByRole('heading').first().waitFor();
        expect([hash, await widthOf(operator)]).toEqual([hash, 380]);
        for (const view of await operator.getByRole('navigation').getByRole('link').all()) {
          const { x, width } = (await view.boundingBox()) ?? { x: 0, width: Number.POSITIVE_INFINITY };
          expect(x + width).toBeLessThanOrEqual(380);
        }
      }
      await operator.goto(`${dashboard.origin}/#/tenants`);
      await rowOf(operator, 'dash-blue').waitFor();
      await operator.reload();
      await rowOf(operator, 'dash-blue').waitFor();
      await operator.keyboard.press('Tab');
      expect(await operator.evaluate('document.activeElement?.textContent')).toBe('Skip to the content');
      await operator.keyboard.press('Enter');
      const focused = () => operator.evaluate('document.activeElement?.textContent?.trim()');
      for (let presses = 0; (await focused()) !== 'dash-blue'; presses++) {
        expect(presses).toBeLessThan(60);
        await operator.keyboard.press('Tab');
      }
      await operator.keyboard.press('Enter');
      await operator.getByRole('heading', { name: 'dash-blue' }).waitFor();
    });

    it('carries out what is asked of it, before the eyes of who looks', async () => {
      await operator.setViewportSize(desktop);
      await operator.goto(`${dashboard.origin}/#/tenants/default/dash-blue`);
      await operator.getByRole('heading', { name: 'dash-blue' }).waitFor();
      const dialog = operator.getByRole('dialog');
      await ask('Snapshot');
      await operator.getByRole('table', { name: 'Snapshots' }).getByText('Requested').waitFor();
      const due = (await world.virtualCluster('dash-blue')).status?.certificatesDue ?? '';
      await ask('Renew certificates');
      await operator
        .getByRole('row', { name: /^renewal/ })
        .getByText('Succeeded')
        .waitFor();
      const renewed = (await world.virtualCluster('dash-blue')).status?.certificatesDue ?? '';
      expect(Date.parse(renewed)).toBeGreaterThan(Date.parse(due));
      await state().getByText('Ready').waitFor();
      await ask('Sleep');
      await state().getByText('Asleep').waitFor();
      await ask('Wake');
      await state().getByText('Ready').waitFor();

      await operator.getByRole('button', { name: 'Upgrade', exact: true }).click();
      await dialog.getByText(/runs .* already/).waitFor();
      await expectNarrow(operator);
      expect(await dialog.getByRole('button', { name: 'Upgrade' }).isDisabled()).toBe(true);
      await operator.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });

      const downloading = operator.waitForEvent('download');
      await operator.getByRole('button', { name: 'Kubeconfig', exact: true }).click();
      const saved = await (await downloading).path();
      expect(connectionFromSecret(await readFile(saved, 'utf8')).server).toMatch(/^https:/);

      await operator.getByRole('button', { name: 'Delete', exact: true }).click();
      await dialog.getByText(/there is no way back/).waitFor();
      await expectNarrow(operator);
      const remove = dialog.getByRole('button', { name: 'Delete it for good' });
      await dialog.getByRole('textbox').fill('dash-bleu');
      expect(await remove.isDisabled()).toBe(true);
      await dialog.getByRole('textbox').fill('dash-blue');
      await remove.click();
      await rowOf(operator, 'dash-blue').waitFor({ state: 'detached' });
    });

    it('has nothing in it that its own policy refuses, and no error of its own', () => {
      expect(complaints).toEqual([]);
    });
  },
);

function documentedCommand(): string {
  return scriptRunBy(pageOf('docs/dashboard.md'), 'test/dashboard.test.ts', 'vc-manager dashboard');
}

/** A token of a ServiceAccount that may do this in all namespaces. */
async function tokenIn(cluster: Cluster, name: string, rules: Rule[]): Promise<string> {
  const { client } = cluster;
  const ref = { namespace: 'default', name };
  await client.create(resources.serviceAccounts, { metadata: ref });
  await client.create(clusterRoles, { metadata: { name }, rules });
  await client.create(roleBindings, {
    metadata: { name },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
    subjects: [{ kind: 'ServiceAccount', ...ref }],
  });
  const request = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 3_600 },
  };
  const { status } = await client.createSubresource<{ status: { token: string } }>(
    resources.serviceAccounts,
    ref,
    'token',
    request,
  );
  // Authorization hears of roles and bindings by watches.
  for (const { verbs, apiGroups, resources: plurals } of rules.slice(0, 1)) {
    const resourceAttributes = { verb: verbs[0], group: apiGroups[0], resource: plurals[0] };
    const spec = { user: `system:serviceaccount:default:${name}`, resourceAttributes };
    await poll(`the rights of ${name}`, async () =>
      at(await client.create<KubeObject>(accessReviews, { metadata: {}, spec }), 'status', 'allowed'),
    );
  }
  return status.token;
}

/** Of the role in the documentation for those who may only look. */
function documentedRules(): Rule[] {
  const text = pageOf('docs/dashboard.md');
  const role = /```yaml\n([^`]*name: skerry-viewer[^`]*)```/.exec(text)?.[1] ?? '';
  return (parse(role) as { rules: Rule[] }).rules;
}

async function removeAccounts({ client }: Cluster): Promise<void> {
  for (const name of ['dash-reader', 'dash-nobody']) {
    for (const kind of [clusterRoles, roleBindings]) await client.delete(kind, { name }).catch(ignoreMissing);
    await client.delete(resources.serviceAccounts, { namespace: 'default', name }).catch(ignoreMissing);
  }
}

function ignoreMissing(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
