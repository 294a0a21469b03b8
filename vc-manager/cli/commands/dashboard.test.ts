import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { stringify } from 'yaml';
import { Browser } from '../../../dashboard/testing/dashboard-world.ts';
import { ReviewingServer } from '../../../dashboard/testing/reviewing-server.ts';
import { resources, systemClock } from '../../../kube/index.ts';
import { buildProgram } from '../program.ts';
import { Captured, runCaptured } from '../testing/captured.ts';

it('shows the tenants of the cluster that --kubeconfig names, as its user, by a link', async () => {
  const home = await mkdtemp(join(tmpdir(), 'skerry-dashboard-'));
  const cluster = await ReviewingServer.start();
  cluster.people.set('of-ann', { name: 'ann', may: () => true });
  cluster.api.put(resources.virtualClusters, { metadata: { namespace: 'teams', name: 'blue' }, spec: {} });
  const file = join(home, 'chart.kubeconfig');
  const kubeconfig = {
    'current-context': 'c',
    clusters: [{ name: 'c', cluster: { server: cluster.url } }],
    users: [{ name: 'u', user: { token: 'of-ann' } }],
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  };
  await writeFile(file, stringify(kubeconfig));
  const [stdout, stderr] = [new Captured(), new Captured()];
  const stop = new AbortController();
  const env = { HOME: home, KUBECONFIG: join(home, 'mine') };
  const cli = {
    ...{ env, stdout, stderr, clock: systemClock, signal: stop.signal },
    ...{ onSignal: () => undefined, setExitCode: () => undefined, outlivesReader: () => undefined },
  };
  const args = ['dashboard', '--kubeconfig', file];
  const ended = (await buildProgram(args, cli)).parseAsync(args, { from: 'user' });
  try {
    await expect.poll(() => stdout.text).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/.*\n$/);
    const link = new URL(stdout.text.trim());
    const browser = new Browser(link.origin);
    expect(await browser.signIn({ link: link.hash.replace(/^#.*=/, '') })).toBe(200);
    expect((await browser.get('/api/session')).body).toMatchObject({ user: 'ann' });
    expect((await browser.get('/api/tenants')).body).toMatchObject({
      rows: [{ namespace: 'teams', name: 'blue' }],
    });
  } finally {
    stop.abort();
    await ended.catch((error: unknown) => {
      if (error !== stop.signal.reason) throw error;
    });
    await cluster.stop();
    await rm(home, { recursive: true, force: true });
  }
});

it('names what serves a team where it would listen beyond loopback, before it does anything', async () => {
  for (const address of ['0.0.0.0:0', '[::]:0'])
    expect(await runCaptured(['dashboard', '--listen', address])).toMatchObject({
      ...{ exitCode: 2, stdout: '' },
      stderr: expect.stringContaining(`"vc-manager operator --dashboard-listen ${address}" serves a team`),
    });
});
