import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CurrentJob } from '../../../api/job-status.ts';
import { annotationKeys, labelKeys } from '../../../api/labels.ts';
import { kubeconfigKey, secretNames } from '../../../api/names.ts';
import type { VirtualCluster, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { startBrowser, whyNoBrowser } from '../../../dashboard/testing/browser.ts';
import { type DashboardWorld, dashboardWorld } from '../../../dashboard/testing/dashboard-world.ts';
import { email, OidcProvider } from '../../../dashboard/testing/oidc-provider.ts';
import { renderKubeconfig, resources, systemClock } from '../../../kube/index.ts';
import { freePort } from '../../../kube/testing/free-port.ts';
import { sharedTestCertificates } from '../../../kube/testing/index.ts';
import { loadTemplates } from '../../control-plane/template.ts';
import { dashboardBackend } from '../commands/dashboard-backend.ts';

const missing = whyNoBrowser();
const why = missing === undefined ? '' : ` (${missing})`;

/** What takes a stack long to come to, on objects of a fake API server; `test/dashboard.test.ts` has the rest. */
describe.skipIf(missing !== undefined)(`the page of the dashboard in a browser${why}`, () => {
  const usesRemoved =
    'apiserver_requested_deprecated_apis{group="old.example.com",removed_release="1.36",resource="widgets",version="v1"} 1';
  let metrics = '';
  /** By which the dashboard's clock is ahead. */
  let aheadMs = 0;
  let tenantServer: Server;
  let world: DashboardWorld;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  /** What the browser has complained about. */
  const complaints: string[] = [];

  beforeAll(async () => {
    const { server } = await sharedTestCertificates();
    tenantServer = createServer({ ...server }, (_, answer) => answer.end(metrics));
    await new Promise<void>((resolve) => tenantServer.listen(0, '127.0.0.1', resolve));
    browser = await startBrowser();
    world = await dashboardWorld({ backend: backend(), now: () => Date.now() + aheadMs });
    for (const template of await loadTemplates())
      world.superCluster.api.put(resources.controlPlaneTemplates, template);
    context = await browser.newContext({ viewport: { width: 1_280, height: 900 } });
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: world.origin });
    page = await visit(context, world.dashboard.link());
  });
  afterAll(async () => {
    await browser?.close();
    await world?.close();
    tenantServer?.closeAllConnections();
    tenantServer?.close();
  });

  const backend = () =>
    dashboardBackend({
      ...{ clock: systemClock, stateDir: '/nowhere', systemNamespace: 'skerry-system' },
      onProblem: (_, what) => complaints.push(what),
    });

  async function visit(of: BrowserContext, address: string): Promise<Page> {
    const opened = await of.newPage();
    opened.on('pageerror', ({ message, stack }) => complaints.push(stack ?? message));
    opened.on('console', (message) => {
      // A request that is refused is a line in the console of its own accord.
      if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
        complaints.push(message.text());
    });
    await opened.goto(address);
    return opened;
  }

  function put(name: string, status: VirtualClusterStatus): void {
    world.superCluster.api.put(resources.virtualClusters, { metadata: { namespace: 'a', name }, status });
  }

  const get = (name: string): VirtualCluster | undefined =>
    world.superCluster.api.get(resources.virtualClusters, { namespace: 'a', name });

  /** One that runs 1.35.4, with an API server that has metrics. */
  async function putRunning(name: string, status: VirtualClusterStatus = {}): Promise<void> {
    put(name, { phase: 'Ready', version: '1.35.4', ...status });
    await putKubeconfig(name, `https://127.0.0.1:${(tenantServer.address() as AddressInfo).port}`);
  }

  async function putKubeconfig(name: string, server: string): Promise<void> {
    const { ca, client } = await sharedTestCertificates();
    const kubeconfig = renderKubeconfig({ clusterName: name, server, ca, user: 'admin', ...client });
    world.superCluster.api.put(resources.secrets, {
      metadata: { namespace: 'a', name: secretNames(name).kubeconfig },
      data: { [kubeconfigKey]: Buffer.from(kubeconfig).toString('base64') },
    });
  }

  const rowOf = (name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('link', { name: `a/${name}`, exact: true }) });
  const view = (name: string) =>
    page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name }).click();

  const focused = () =>
    page.evaluate<string>(
      "document.activeElement.localName === 'main' ? 'main' : document.activeElement.textContent.trim()",
    );

  async function open(name: string): Promise<void> {
    await page.goto(`${world.origin}/#/tenants/a/${name}`);
    await page.getByRole('heading', { name }).waitFor();
  }

  it('says who needs attention and what helps, which can be copied', async () => {
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const failed = {
      type: 'Ready',
      status: 'False',
      reason: 'DiskFull',
      message: 'The disk is full.',
    } as const;
    put('held', { phase: 'Failed', conditions: [{ ...failed, lastTransitionTime }] });
    await view('Attention');
    const row = rowOf('held');
    await row.getByText('The disk is full.').waitFor();
    await row.getByText('DiskFull').waitFor();
    const command = 'vc-manager logs held -n a';
    await row.getByRole('button', { name: `Copy: ${command}` }).click();
    await row.getByRole('button', { name: `Copied: ${command}` }).waitFor();
    await row.getByRole('status').filter({ hasText: 'Copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command);
  });

  it.each([
    ['IdentityMismatch', 'TenantIdentity', annotationKeys.acceptIdentity],
    ['DeletionHeld', 'TooManyAtOnce', annotationKeys.confirmDeletions],
  ] as const)('says what %s stops, and the command that decides can be copied', async (type, reason, key) => {
    const name = type.toLowerCase();
    // Of a tenant both sides may have lost something: then there are two questions.
    const commands = ['7f0d3a1e-0000-4000-8000-2b6a1c9d4e5f', 'second'].map(
      (token) => `kubectl annotate --overwrite virtualcluster ${name} -n a ${key}=${token}`,
    );
    const message = commands.map((each) => `Deletes are stopped. If that is meant: ${each}`).join('. ');
    const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: '' } as const;
    const lastTransitionTime = new Date().toISOString();
    const conditions = [ready, { type, status: 'True', reason, message } as const];
    put(name, {
      phase: 'Ready',
      conditions: conditions.map((each) => ({ ...each, lastTransitionTime })),
    });
    await view('Attention');
    const row = rowOf(name);
    await row.getByText('Wrong').waitFor();
    await row.getByText(reason).waitFor();
    for (const command of commands) {
      await row.getByRole('button', { name: `Copy: ${command}`, exact: true }).click();
      await row.getByRole('button', { name: `Copied: ${command}`, exact: true }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command);
    }
  });

  it('shows a job that goes on, and renews, tries again and cancels', async () => {
    const startedAt = new Date(Date.now() - 60_000).toISOString();
    const current: CurrentJob = {
      ...({ kind: 'snapshot', id: 'job-7', step: 'snapshot', attempts: 3, failing: true } as const),
      ...{ startedAt, message: 'The store is away.' },
    };
    await putRunning('busy', { jobs: { current } });
    await view('Jobs');
    await page.setViewportSize({ width: 800, height: 900 });
    await rowOf('busy').getByText('The store is away.').waitFor();
    await page.setViewportSize({ width: 1_280, height: 900 });
    await rowOf('busy').getByText('Retrying').waitFor();
    await open('busy');
    for (const name of ['Renew certificates', 'Try again', 'Cancel the job']) {
      await page.getByRole('button', { name, exact: true }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name, exact: true }).waitFor();
      const others = await dialog.getByRole('button', { name: 'Cancel', exact: true }).count();
      expect(others).toBe(name === 'Cancel the job' ? 0 : 1);
      await dialog.getByRole('button', { name, exact: true }).click();
      await dialog.waitFor({ state: 'detached' });
    }
    expect(get('busy')?.metadata.annotations).toEqual({
      [annotationKeys.renewCertificates]: expect.stringMatching(/^\d{4}-/),
      [annotationKeys.retryJob]: expect.stringMatching(/^\d{4}-/),
      [annotationKeys.cancelJob]: 'job-7',
    });
  });

  it('lists the pods that there are of a tenant whose syncer cannot be asked, and says why', async () => {
    await putRunning('unmeasured');
    const labels = {
      [labelKeys.tenant]: get('unmeasured')?.metadata.uid ?? '',
      [labelKeys.namespace]: 'shop',
    };
    for (const [name, phase] of [
      ['web', 'Running'],
      ['job', 'Failed'],
    ] as const)
      world.superCluster.api.put(resources.pods, {
        metadata: { namespace: 'unmeasured-shop', name, labels },
        spec: { nodeName: 'node-1' },
        status: { phase, conditions: [{ type: 'Ready', status: 'True' }] },
      });
    await open('unmeasured');
    const pods = page.getByRole('table', { name: 'Pods of the tenant' });
    // There is no syncer here: that is something else than one that has measured none.
    await page.getByText(/could not be asked how long pods took: no syncer has a Lease/).waitFor();
    expect(await page.getByText('has measured no pod').count()).toBe(0);
    const web = pods.getByRole('row').filter({ has: page.getByRole('button', { name: 'shop/web' }) });
    await web.getByText('Running').waitFor();
    await web.getByText('node-1').waitFor();
    await pods.getByText('Failed').waitFor();
    // What asks for its way asks the tenant's API server, which does not know it here.
    await web.getByRole('button').click();
    await page.getByRole('alert').waitFor();
    await web.getByRole('button').click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });

  it('upgrades, and against what speaks against it only when that is wanted', async () => {
    await putRunning('old');
    metrics = `${usesRemoved}\n`;
    await open('old');
    const dialog = page.getByRole('dialog');
    const upgrade = dialog.getByRole('button', { name: 'Upgrade', exact: true });
    await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
    await dialog.getByText('uses APIs that 1.36.3 does not have: widgets.v1.old.example.com').waitFor();
    await expectNoOverflow(page);
    expect(await dialog.textContent()).not.toContain('dry run');
    expect(await upgrade.isDisabled()).toBe(true);
    await dialog.getByLabel('Upgrade it all the same').check();
    await upgrade.click();
    await dialog.waitFor({ state: 'detached' });
    expect(get('old')?.spec).toEqual({ version: '1.36.3' });

    await putRunning('new');
    metrics = '';
    await open('new');
    await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
    await dialog.getByLabel('To version').selectOption('1.36.3');
    await dialog.getByText('No API is in use that it does not have.').waitFor();
    await upgrade.click();
    await page.getByText('new goes from 1.35.4 to 1.36.3.').waitFor();
    expect(get('new')?.spec).toEqual({ version: '1.36.3' });
  });

  it('offers no upgrade where there is none to a version that the tenant could go to', async () => {
    const [template] = await loadTemplates();
    const metadata = { name: 'too-new' };
    world.superCluster.api.put(resources.controlPlaneTemplates, {
      ...template,
      metadata,
      spec: { ...template?.spec, kubernetesVersion: '1.38.0' },
    });
    try {
      await putRunning('newest', { version: '1.36.3' });
      await open('newest');
      const dialog = page.getByRole('dialog');
      await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
      await dialog.getByText('cannot go to 1.38.0').waitFor();
      await dialog.getByText('newest runs 1.36.3 already').waitFor();
      expect(await dialog.getByRole('button', { name: 'Upgrade', exact: true }).isDisabled()).toBe(true);
    } finally {
      world.superCluster.api.remove(resources.controlPlaneTemplates, metadata);
    }
  });

  it('forgets what was agreed to when another version is chosen', async () => {
    await putRunning('careful');
    metrics = `${usesRemoved}\n`;
    await open('careful');
    const dialog = page.getByRole('dialog');
    const upgrade = dialog.getByRole('button', { name: 'Upgrade', exact: true });
    const force = dialog.getByLabel('Upgrade it all the same');
    await page.getByRole('button', { name: 'Upgrade', exact: true }).click();
    await force.check();
    expect(await upgrade.isDisabled()).toBe(false);
    const { promise: goOn, resolve } = Promise.withResolvers<void>();
    await page.route('**/preview', async (route) => {
      await goOn;
      await route.continue();
    });
    await dialog.getByLabel('To version').selectOption('1.36.3');
    await dialog.getByText('Asking what would happen…').waitFor();
    expect(await upgrade.isDisabled()).toBe(true);
    resolve();
    await dialog.getByText('uses APIs that 1.36.3 does not have').waitFor();
    expect([await force.isChecked(), await upgrade.isDisabled()]).toEqual([false, true]);
    await page.unroute('**/preview');
    metrics = '';
  });

  it('deletes nothing that may not be deleted, and leaves the focus where it was', async () => {
    world.superCluster.api.put(resources.virtualClusters, {
      metadata: { namespace: 'a', name: 'guarded' },
      spec: { deletionProtection: true },
      status: { phase: 'Ready' },
    });
    await open('guarded');
    const dialog = page.getByRole('dialog');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await dialog.getByRole('alert').filter({ hasText: 'is protected from deletion' }).waitFor();
    await dialog.getByRole('textbox').fill('guarded');
    expect(await dialog.getByRole('button', { name: 'Delete it for good' }).isDisabled()).toBe(true);
    await expectNoOverflow(page);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(focused).toBe('Delete');
  });

  it('deletes once a snapshot is kept where that is wanted, and nothing when it is called off', async () => {
    const identities = { tenant: 't', superCluster: 's' };
    await putRunning('kept', { identities });
    const taken = () => get('kept')?.metadata.annotations?.[annotationKeys.snapshot];
    const begin = async () => {
      await open('kept');
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Take a snapshot first').check();
      await dialog.getByLabel('to confirm').fill('kept');
      await dialog.getByRole('button', { name: 'Delete it for good' }).click();
      await dialog.getByRole('status').filter({ hasText: 'is being taken' }).waitFor();
      expect(await focused()).toBe('Delete it for good');
      await expect.poll(taken).toBeDefined();
      return dialog;
    };
    const keep = () => {
      const at = '2026-01-01T00:00:00.000Z';
      const kept = { at, reason: 'Requested', kubernetes: '1.36.3', entries: 3, bytes: 99 } as const;
      const name = `a/kept/${Date.now()}.snapshot`;
      put('kept', {
        ...{ phase: 'Ready', version: '1.35.4', identities },
        snapshots: { taken: taken() ?? '', kept: [{ ...kept, name }] },
      });
    };
    const watches = () => world.superCluster.api.watches('virtualclusters').length;
    const before = watches();
    const dialog = await begin();
    await expect.poll(watches).toBe(before + 1);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    // The server has noticed.
    await expect.poll(watches).toBe(before);
    keep();
    await page.getByText('a/kept/').waitFor();
    expect(get('kept')).toBeDefined();
    put('kept', { phase: 'Ready', version: '1.35.4', identities });
    await begin();
    expect(get('kept')).toBeDefined();
    keep();
    await page.getByText('kept is being deleted, and kept as a/kept/').waitFor();
    expect(get('kept')).toBeUndefined();
  });

  it('shows by itself what could not be loaded at first', async () => {
    await putRunning('slow');
    const path = '**/api/tenants/a/slow';
    await page.route(path, (route) =>
      route.fulfill({ status: 503, json: { message: 'it is being started' } }),
    );
    await page.goto(`${world.origin}/#/tenants/a/slow`);
    await page.getByText('it is being started').waitFor();
    await page.unroute(path);
    await page.getByRole('button', { name: 'Sleep', exact: true }).waitFor();
  });

  it('is acted upon by the keyboard alone', async () => {
    await putRunning('keys', { identities: { tenant: 't', superCluster: 's' } });
    await open('keys');
    await page.getByRole('button', { name: 'Sleep', exact: true }).waitFor();
    const focusedIn = () =>
      page.evaluate(
        "[document.activeElement.textContent.trim(), document.activeElement.closest('dialog') !== null]",
      );
    const press = async (key: string, name: string, isInDialog: boolean): Promise<void> => {
      for (let presses = 0; ; presses++) {
        const at = await focusedIn();
        if (isDeepStrictEqual(at, [name, isInDialog])) break;
        expect(presses).toBeLessThan(60);
        await page.keyboard.press('Tab');
      }
      await page.keyboard.press(key);
    };
    await press('Enter', 'Sleep', false);
    const dialog = page.getByRole('dialog', { name: 'Sleep: keys' });
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(get('keys')?.metadata.annotations).toBeUndefined();
    await expect.poll(focusedIn).toEqual(['Sleep', false]);
    await press('Space', 'Sleep', false);
    await dialog.waitFor();
    await press('Enter', 'Sleep', true);
    await dialog.waitFor({ state: 'detached' });
    expect(get('keys')?.metadata.annotations).toEqual({
      [annotationKeys.sleep]: expect.stringMatching(/^\d{4}-/),
    });
    await expect.poll(focusedIn).toEqual(['Sleep', false]);
  });

  it('opens a dialog anew before the browser has told that the one before is closed', async () => {
    await putRunning('quick');
    await open('quick');
    await page.getByRole('button', { name: 'Sleep', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Sleep: quick' });
    await dialog.waitFor();
    await page.evaluate(`new Promise((told) => {
      const first = document.querySelector('dialog');
      first.addEventListener('close', () => told());
      first.close();
      [...document.querySelectorAll('.actions > button')].find((each) => each.textContent === 'Sleep').click();
    })`);
    await dialog.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
  });

  it('keeps what it shows while nobody answers, and not when it is gone', async () => {
    await putRunning('steady');
    await open('steady');
    const path = `${world.origin}/api/tenants/a/steady`;
    const alert = page.getByRole('alert');
    const heading = page.getByRole('heading', { name: 'steady' });
    await page.route(path, (route) => route.fulfill({ status: 502, json: { message: 'it is away' } }));
    put('steady', { phase: 'Upgrading' });
    await alert.filter({ hasText: 'it is away' }).waitFor();
    expect(await heading.isVisible()).toBe(true);
    await page.unroute(path);
    put('steady', { phase: 'Ready' });
    await alert.waitFor({ state: 'detached' });
    world.superCluster.api.remove(resources.virtualClusters, { namespace: 'a', name: 'steady' });
    await alert.filter({ hasText: 'there is no tenant a/steady' }).waitFor();
    expect(await heading.count()).toBe(0);
  });

  it('has the focus in the page when what opened a dialog is gone by the time it is closed', async () => {
    const startedAt = new Date().toISOString();
    const current: CurrentJob = { kind: 'snapshot', id: 'job-8', step: 'snapshot', attempts: 1, startedAt };
    await putRunning('passing', { jobs: { current } });
    await open('passing');
    const cancel = page.getByRole('button', { name: 'Cancel the job', exact: true });
    await cancel.click();
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await putRunning('passing');
    await page.locator('.actions > button', { hasText: 'Cancel the job' }).waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(focused).toBe('main');
  });

  it('has nothing that has the focus behind its header', async () => {
    await putRunning('tall');
    const before = page.viewportSize() ?? { width: 1_280, height: 900 };
    for (const width of [1_280, 380]) {
      await page.setViewportSize({ width, height: 400 });
      await open('tall');
      await page.getByRole('button', { name: 'Sleep', exact: true }).waitFor();
      const { top, bottom } = await page.evaluate<{ top: number; bottom: number }>(`(() => {
        const button = [...document.querySelectorAll('.actions button')].at(-1);
        document.activeElement.blur();
        scrollBy(0, button.getBoundingClientRect().top - 4);
        button.focus();
        return { top: button.getBoundingClientRect().top, bottom: document.querySelector('.top').getBoundingClientRect().bottom };
      })()`);
      expect([width, top >= bottom]).toEqual([width, true]);
    }
    await page.setViewportSize(before);
  });

  it('reads a log out when somebody asks for it, and not whenever it is loaded again', async () => {
    await putRunning('told');
    const path = `${world.origin}/api/tenants/a/told/`;
    await page.route(`${path}components`, (route) =>
      route.fulfill({ json: { components: [{ name: 'etcd', state: 'running', restarts: 0 }] } }),
    );
    await page.route(`${path}logs?*`, (route) => route.fulfill({ json: { lines: ['it is ready'] } }));
    await open('told');
    await page.getByRole('button', { name: 'etcd' }).click();
    const log = page.getByRole('log', { name: 'Log of etcd' });
    await log.getByText('it is ready').waitFor();
    expect(await log.getAttribute('aria-live')).toBe('off');
    await page.unroute(`${path}components`);
    await page.unroute(`${path}logs?*`);
  });

  it('keeps the filter that was chosen in sight when no tenant is like that any more', async () => {
    put('sleepy', { phase: 'Asleep' });
    await view('Tenants');
    const asleep = page.getByRole('button', { name: 'Asleep' });
    await asleep.click();
    await rowOf('sleepy').waitFor();
    put('sleepy', { phase: 'Ready' });
    await page.getByText('No tenant is like that.').waitFor();
    // Read out: these regions are there before there is anything in them.
    await page
      .getByRole('status')
      .filter({ hasText: /^0 of \d+ tenants$/ })
      .waitFor();
    expect(await page.locator('.toast').isVisible()).toBe(true);
    expect(await asleep.getAttribute('aria-pressed')).toBe('true');
    await page.getByRole('button', { name: 'All' }).click();
    await rowOf('sleepy').waitFor();
  });

  it('has the name of what it shows in its title', async () => {
    await open('old');
    await expect.poll(() => page.title()).toBe('a/old · Skerry');
    await view('Jobs');
    await expect.poll(() => page.title()).toBe('Jobs · Skerry');
  });

  it.each([
    ['Tenants', 'Tenants'],
    ['Attention', 'Attention'],
    ['Jobs', 'Jobs under way'],
    ['Certificates', 'Certificates'],
    ['Syncer', 'Syncer'],
  ])('has one heading of the first level in the view %s', async (name, title) => {
    await view(name);
    await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
    expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1);
    await expectNoOverflow(page);
  });

  it('shows a tenant what it is told of itself, without empty columns, until its token has expired', async () => {
    await putKubeconfig('blue', world.tenantServer.url);
    world.tenantServer.people.set('admin-of-blue', { name: 'blue-admin', may: () => true });
    world.tenantServer.api.put(resources.pods, { metadata: { namespace: 'shop', name: 'web' } });
    const apart = await browser.newContext();
    try {
      const own = await visit(apart, world.origin);
      const focusedName = () => own.evaluate('document.activeElement.localName');
      await own.getByRole('button', { name: 'Sign in' }).waitFor();
      await expectNoOverflow(own);
      await own.locator('[name=token]').fill('unheard-of');
      await own.getByRole('button', { name: 'Sign in' }).click();
      await own.getByRole('alert').filter({ hasText: 'does not know this token' }).waitFor();
      expect(await focusedName()).toBe('button');
      await own.locator('[name=token]').fill('admin-of-blue');
      await own.locator('[name=tenant]').fill('a/blue');
      await own.getByRole('button', { name: 'Sign in' }).click();
      await own.getByRole('heading', { name: 'blue' }).waitFor();
      await expect.poll(focusedName).toBe('main');
      expect(await own.title()).toBe('blue · Skerry');
      const titles = own.getByRole('table', { name: 'Jobs' }).getByRole('columnheader');
      await titles.first().waitFor();
      expect((await titles.allTextContents()).map((each) => each.trim())).toEqual([
        ...['Job', 'State', 'Began', 'Took'],
      ]);
      await own
        .getByText(/could not be asked how long pods took: there is no answer at the moment/)
        .waitFor();
      await own.getByRole('button', { name: 'shop/web' }).waitFor();
      const names = own
        .getByRole('table', { name: 'Authorities and certificates of the control plane' })
        .getByRole('rowheader');
      expect(await names.allTextContents()).toEqual(['admin', 'kube-apiserver', 'ca']);
      await expectNoOverflow(own);
      await own.getByRole('button', { name: 'Sign out' }).click();
      await own.getByRole('button', { name: 'Sign in' }).waitFor();
      await expect.poll(focusedName).toBe('main');
      await own.locator('[name=token]').fill('admin-of-blue');
      await own.locator('[name=tenant]').fill('a/blue');
      await own.getByRole('button', { name: 'Sign in' }).click();
      await own.getByRole('heading', { name: 'blue' }).waitFor();
      world.tenantServer.people.delete('admin-of-blue');
      // What was answered about it is forgotten then.
      aheadMs += 21_000;
      await own.reload();
      await own.locator('[name=token]').waitFor();
      await own.getByRole('alert').filter({ hasText: 'does not accept this token any more' }).waitFor();
    } finally {
      await apart.close();
    }
  });

  it('counts the header of a table as a row, and orders rows on a narrow screen, too', async () => {
    await page.goto(`${world.origin}/#/tenants`);
    const table = page.getByRole('table');
    await rowOf('old').waitFor();
    const rows = world.superCluster.api.list(resources.virtualClusters).length + 1;
    expect(await table.getAttribute('aria-rowcount')).toBe(String(rows));
    const indices = await page.evaluate(
      "[...document.querySelectorAll('table [role=row]')].map((row) => row.getAttribute('aria-rowindex'))",
    );
    expect(indices).toEqual(Array.from({ length: rows }, (_, index) => String(index + 1)));
    const sortBy = page.getByLabel('Sort by');
    expect(await sortBy.isVisible()).toBe(false);
    await page.setViewportSize({ width: 380, height: 800 });
    try {
      const first = table.getByRole('rowheader').first();
      await sortBy.selectOption('Tenant, descending');
      await first.getByText('b/red').waitFor();
      await sortBy.selectOption('Tenant');
      await first.getByText('a/blue').waitFor();
      // The header is there for who has the table read out: nothing in it can have the focus unseen.
      await table.getByRole('columnheader', { name: 'Tenant' }).waitFor();
      expect(await table.getByRole('columnheader').getByRole('button').count()).toBe(0);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(380);
      await page.getByRole('button', { name: 'Create a tenant' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name', { exact: true }).waitFor();
      expect(await page.evaluate(overflowOfDialog)).toBe(0);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await dialog.waitFor({ state: 'detached' });
    } finally {
      await sortBy.selectOption('Health');
      await page.setViewportSize({ width: 1_280, height: 900 });
    }
  });

  it('is dark where the browser is, and can be read', async () => {
    await page.goto(`${world.origin}/#/tenants`);
    await page.getByRole('table').waitFor();
    const contrast = () =>
      page.evaluate<{ page: number; contrasts: Record<string, number> }>(measureContrast);
    const light = await contrast();
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await contrast();
    await page.emulateMedia({ colorScheme: null });
    expect(light.page).toBeGreaterThan(0.5);
    expect(dark.page).toBeLessThan(0.1);
    expect(Object.keys(light.contrasts)).toHaveLength(15);
    // What WCAG asks for at level AA.
    for (const { contrasts } of [light, dark])
      expect(Object.entries(contrasts).filter(([, ratio]) => ratio < 4.5)).toEqual([]);
  });

  it('shows a thousand tenants, a change of one of them, and finds one', async () => {
    await page.goto(`${world.origin}/#/tenants`);
    const before = world.superCluster.api.list(resources.virtualClusters).length;
    for (let each = 0; each < 1_000; each++) put(`many-${each}`, { phase: 'Ready', version: '1.36.3' });
    await page.getByText(`1–50 of ${before + 1_000}`).waitFor();
    put('many-777', { phase: 'Failed', version: '1.36.3' });
    await rowOf('many-777').getByText('Failed').waitFor();
    await page.getByLabel('Search tenants').fill('many-99');
    await rowOf('many-999').waitFor();
    await page.getByText(`1–50 of`).waitFor({ state: 'detached' });
    // The header, and many-99, many-990 to many-999.
    expect(await page.getByRole('row').count()).toBe(12);
    await page.getByLabel('Search tenants').fill('many-9');
    const next = page.getByRole('button', { name: 'Next' });
    await next.focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await page.getByText('101–111 of 111').waitFor();
    await page.keyboard.press('Enter');
    expect([await focused(), await next.getAttribute('aria-disabled')]).toEqual(['Next', 'true']);
    await page.getByText('101–111 of 111').waitFor();
    await page.reload();
    await page.getByText(`1–50 of ${before + 1_000}`).waitFor();
  });

  it('is signed in to by way of the organisation', async () => {
    const provider = await OidcProvider.start(['viewers']);
    const port = await freePort();
    // Another site than the provider, as cookies see it.
    const url = `http://localhost:${port}/`;
    const other = await dashboardWorld({ url, oidc: provider.settings, backend: backend() }, port);
    const stranger = await browser.newContext();
    try {
      const own = await visit(stranger, url);
      await own.getByRole('link', { name: 'Sign in with your organisation' }).click();
      await own.getByTitle(email).waitFor();
      await own.getByRole('link', { name: 'a/green' }).waitFor();
      expect(new URL(own.url()).origin).toBe(new URL(url).origin);
    } finally {
      await stranger.close();
      await other.close();
      await provider.stop();
    }
  });

  it('has no error of its own', () => expect(complaints).toEqual([]));
});

/** On a narrow screen nothing is to the right of the page, or of the dialog that is open. */
async function expectNoOverflow(page: Page): Promise<void> {
  const before = page.viewportSize() ?? { width: 1_280, height: 900 };
  await page.setViewportSize({ width: 380, height: 800 });
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(380);
  if ((await page.getByRole('dialog').count()) > 0) expect(await page.evaluate(overflowOfDialog)).toBe(0);
  await page.setViewportSize(before);
}

/** In the browser: how much of a dialog's content is to the right of it. */
const overflowOfDialog = `(() => {
  const dialog = document.querySelector('dialog');
  return dialog.scrollWidth - dialog.clientWidth;
})()`;

/**
 * In the browser: how bright the page is, 1 for white, and how text of each look stands out on a card, as WCAG counts it:
 * that of marks, and their symbols.
 */
const measureContrast = `(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const luminance = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgroundOf = (element) => {
    const { backgroundColor } = getComputedStyle(element);
    return backgroundColor === 'rgba(0, 0, 0, 0)' ? backgroundOf(element.parentElement) : backgroundColor;
  };
  const contrastOf = (element) => {
    const [a, b] = [getComputedStyle(element).color, backgroundOf(element)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const add = (parent, name, className) => {
    const made = parent.appendChild(document.createElement(name));
    made.className = className;
    return made;
  };
  const root = document.documentElement;
  const card = add(document.body, 'section', 'card');
  const contrasts = { page: contrastOf(root), card: contrastOf(card) };
  for (const [name, className] of [['span', 'muted'], ['p', 'problem'], ['button', 'danger']])
    contrasts[className] = contrastOf(add(card, name, className));
  for (const health of ['well', 'busy', 'asleep', 'limited', 'wrong']) {
    const mark = add(card, 'span', 'mark ' + health);
    contrasts[health] = contrastOf(mark);
    contrasts[health + ' symbol'] = contrastOf(add(mark, 'span', ''));
  }
  card.remove();
  return { page: luminance(backgroundOf(root)), contrasts };
})()`;
