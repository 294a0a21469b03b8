import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { DifferenceReport } from '../../../api/difference-report.ts';
import { resources } from '../../../kube/index.ts';
import { FakeApiServer } from '../../../kube/testing/index.ts';
import { runCaptured } from '../testing/captured.ts';

describe('diff', () => {
  let server: FakeApiServer;
  let syncer: Server;
  let home: string;
  let url: string;
  let answer: { status: number; body: object };
  let asked: string[];

  beforeEach(async () => {
    server = await FakeApiServer.start();
    home = await mkdtemp(join(tmpdir(), 'skerry-diff-'));
    const kubeconfig = {
      'current-context': 'c',
      clusters: [{ name: 'c', cluster: { server: server.url } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    };
    await writeFile(join(home, 'super.kubeconfig'), stringify(kubeconfig));
    server.put(resources.virtualClusters, { metadata: { name: 'blue', namespace: 'default' }, spec: {} });
    asked = [];
    syncer = createServer((request, response) => {
      asked.push(request.url ?? '');
      response.writeHead(answer.status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer.body));
    });
    await new Promise<void>((resolve) => syncer.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(syncer.address() as AddressInfo).port}`;
  });

  afterEach(async () => {
    syncer.closeAllConnections();
    await new Promise((resolve) => syncer.close(resolve));
    await server.stop();
    await rm(home, { recursive: true, force: true });
  });

  const run = (...args: string[]) =>
    runCaptured(['diff', 'blue', '--syncer', url, ...args, '--kubeconfig', join(home, 'super.kubeconfig')], {
      HOME: home,
    });
  const report: DifferenceReport = {
    tenant: 'default/blue',
    compared: 12,
    total: 3,
    differences: [
      {
        kind: 'services',
        namespace: 'shop',
        name: 'web',
        is: 'differs',
        state: 'failing',
        why: 'the last try failed \u001b[31m',
        fields: ['spec.a', 'spec.b', 'spec.c', 'spec.d'],
      },
      { kind: 'nodes', name: 'n1', is: 'missing-in-tenant', state: 'queued', why: 'in a moment' },
    ],
  };

  it('lists what differs, where and why', async () => {
    answer = { status: 200, body: report };
    const { exitCode, stdout, stderr } = await run('--most', '2');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(
      /^services +shop +web +differs +failing +spec\.a, spec\.b, spec\.c, \.\. \(4\) +the last try failed/m,
    );
    expect(stdout).not.toContain('\u001b[31m');
    expect(stdout).toMatch(/^nodes +- +n1 +missing-in-tenant +queued +- +in a moment/m);
    expect(stderr).toContain('3 of 12 objects differ; 1 are not listed');
    expect(asked).toEqual(['/debug/differences?tenant=default%2Fblue&most=2']);
  });

  it('says so when both sides agree, and prints JSON for programs', async () => {
    answer = { status: 200, body: { ...report, total: 0, differences: [] } };
    expect((await run()).stdout).toBe('Both sides of blue agree: 12 objects compared.\n');
    expect(JSON.parse((await run('-o', 'json')).stdout)).toMatchObject({ compared: 12, total: 0 });
  });

  it('explains why no syncer answers', async () => {
    answer = { status: 404, body: { reason: 'UnknownTenant' } };
    const { exitCode, stderr } = await run();
    expect([exitCode, stderr]).toEqual([5, expect.stringContaining('no syncer serves default/blue')]);
  });
});
