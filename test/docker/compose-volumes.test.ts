import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../kube/testing/free-port.ts';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import type { ControlPlanePlan } from '../../vc-manager/control-plane/plan.ts';
import { ComposeDriver } from '../../vc-manager/drivers/compose/compose-driver.ts';
import { imageOf } from '../../vc-manager/drivers/images.ts';
import { patienceMs } from '../harness/poll.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { mustDocker } from './engine/engine.ts';
import { withKubernetesImages } from './images/index.ts';

const { signal } = new AbortController();
const id = 'keeper';
const image = imageOf({ name: 'etcd', version: defaultVersions.etcd });
const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '');

/** What the conformance suite does not show: etcd keeps something of its own, and is quick to start. */
describeWithEngine('the volumes of the compose driver', (engine) => {
  const environment = { ...process.env, ...engine.env };
  let root: string;
  let driver: ComposeDriver;
  let port: number;
  let peerPort: number;

  beforeAll(async () => {
    await withKubernetesImages(engine);
    root = await mkdtemp(join(tmpdir(), 'skerry-compose-'));
    driver = new ComposeDriver({ root, environment });
    port = await freePort();
    peerPort = await freePort();
  });

  afterAll(async () => {
    await driver.remove(id, { signal });
    await driver.close();
    await rm(root, { recursive: true });
  });

  function plan(changes: { logLevel?: string } = {}): ControlPlanePlan {
    const [url, peer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peerPort}`];
    return {
      id,
      labels: {},
      components: [
        {
          name: 'etcd',
          binary: { name: 'etcd', version: defaultVersions.etcd },
          args: ['--config-file=${files}/etcd/etcd.yaml'],
          env: {},
          files: [
            {
              path: 'etcd/etcd.yaml',
              content: [
                'data-dir: ${data}/etcd',
                `listen-client-urls: ${url}`,
                `advertise-client-urls: ${url}`,
                `listen-peer-urls: ${peer}`,
                `initial-advertise-peer-urls: ${peer}`,
                `initial-cluster: default=${peer}`,
                `log-level: ${changes.logLevel ?? 'info'}`,
              ].join('\n'),
              mode: 0o600,
            },
          ],
          ports: [{ name: 'client', port, host: '127.0.0.1' }],
          probe: { scheme: 'http', host: '127.0.0.1', port, path: '/health', timeoutMs: patienceMs },
          dependsOn: [],
          stopTimeoutMs: 10_000,
        },
      ],
    };
  }

  async function etcd(call: 'put' | 'range', request: object): Promise<{ kvs?: { value: string }[] }> {
    const body = JSON.stringify(request);
    const answer = await fetch(`http://127.0.0.1:${port}/v3/kv/${call}`, { method: 'POST', body });
    return (await answer.json()) as { kvs?: { value: string }[] };
  }

  async function volumes(): Promise<string[]> {
    const filter = ['--filter', `label=skerry.dev/id=${id}`];
    return lines(await mustDocker(engine, ['volume', 'ls', '--format', '{{.Name}}', ...filter])).sort();
  }

  it('says which image the engine lacks, and has made nothing', async () => {
    const other = new ComposeDriver({ root, environment, imageRegistry: '127.0.0.1:1/mirror' });
    await expect(other.ensure(plan(), { signal })).rejects.toMatchObject({
      code: 'ImageMissing',
      message: expect.stringMatching(/127\.0\.0\.1:1\/mirror\/etcd:v.*--image-registry/),
      fields: { id, component: 'etcd' },
    });
    await other.close();
    expect(await volumes()).toEqual([]);
  });

  it('goes on where an earlier manager was interrupted', async () => {
    const filling = ['--name', `skerry-${id}-etcd-filling`, '--label', `skerry.dev/id=${id}`];
    await mustDocker(engine, ['create', '--network', 'none', ...filling, image]);
    await driver.ensure(plan(), { signal });
    const all = ['ps', '--all', '--filter', `label=skerry.dev/id=${id}`, '--format', '{{.Names}}'];
    expect(await mustDocker(engine, all)).toBe(`skerry-${id}-etcd-1`);
  });

  it('keeps data over a new container, and no file of the earlier one', async () => {
    const [key, value] = ['kept', 'yes'].map((text) => Buffer.from(text).toString('base64'));
    await etcd('put', { key, value });
    const before = await volumes();
    expect(before).toHaveLength(2);
    await driver.ensure(plan({ logLevel: 'warn' }), { signal });
    expect((await etcd('range', { key })).kvs?.map((each) => each.value)).toEqual([value]);
    const after = await volumes();
    expect(after).toHaveLength(2);
    expect(after.filter((name) => before.includes(name))).toEqual([`skerry-${id}_etcd-data`]);
  });

  it('keeps data of a component that the plan no longer names, until all is removed', async () => {
    const started = await driver.observe(id);
    expect(started.components).toHaveLength(1);
    await driver.ensure({ ...plan(), components: [] }, { signal });
    expect((await driver.observe(id)).components).toEqual([]);
    expect(await volumes()).toEqual([`skerry-${id}_etcd-data`]);
    await driver.remove(id, { signal });
    expect(await volumes()).toEqual([]);
  });
});
