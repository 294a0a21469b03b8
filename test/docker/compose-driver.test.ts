import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import type { ComponentPlan } from '../../vc-manager/control-plane/plan.ts';
import { ComposeDriver } from '../../vc-manager/drivers/compose/compose-driver.ts';
import { placeOnMachine } from '../../vc-manager/drivers/egress-confinement.ts';
import { imageOf } from '../../vc-manager/drivers/images.ts';
import { egressFilterProblem } from '../../vc-manager/os/egress-filter.ts';
import { freePort } from '../../vc-manager/os/network.ts';
import { describeDriver } from '../drivers/conformance.ts';
import { type DriverWorld, localWorldParts } from '../drivers/driver-world.ts';
import { patienceMs } from '../harness/poll.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { type EngineInfo, mustDocker } from './engine/engine.ts';
import { withKubernetesImages } from './images/index.ts';

const version = defaultVersions.kubernetes;

describeWithEngine('on a Docker engine', (engine) => {
  describeDriver('compose', () => composeWorld(engine));

  it.skipIf(egressFilterProblem() !== undefined)(
    'starts anew, once, what has run unconfined, with its files and data, and leaves no rules behind (only where root has nftables)',
    async () => {
      await withKubernetesImages(engine);
      const root = await mkdtemp(join(tmpdir(), 'skerry-confined-'));
      const plan = { id: 'confined', labels: {}, components: [await etcd()] };
      const { signal } = new AbortController();
      const drivers: ComposeDriver[] = [];
      const ensured = async (egress?: []): Promise<string> => {
        const driver = new ComposeDriver({ root, egress, environment: { ...process.env, ...engine.env } });
        drivers.push(driver);
        await driver.ensure(plan, { signal });
        const format = '{{.Id}} {{.Config.User}}';
        return mustDocker(engine, ['inspect', '--format', format, 'skerry-confined-etcd-1']);
      };
      const tables = (): string => execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' });
      const { name } = placeOnMachine(root);
      try {
        const open = await ensured();
        expect(open).toMatch(/ 65532:65532$/);
        const confined = await ensured([]);
        expect(confined).toMatch(/ 65532:\d{10}$/);
        expect(tables()).toContain(name);
        // Neither another manager nor one that may not confine starts it anew.
        expect(await ensured([])).toBe(confined);
        expect(await ensured()).toBe(confined);
      } finally {
        const last = new ComposeDriver({ root, egress: [], environment: { ...process.env, ...engine.env } });
        await last.remove('confined', { signal });
        for (const driver of [...drivers, last]) await driver.close();
        await rm(root, { recursive: true });
      }
      expect(tables()).not.toContain(name);
    },
  );
});

/** With its configuration in a file. */
async function etcd(): Promise<ComponentPlan> {
  const host = '127.0.0.1';
  const range = [24_000, 24_999] as const;
  const port = await freePort({ host, range });
  const peers = `http://${host}:${await freePort({ host, range, taken: [port] })}`;
  const configuration = {
    'data-dir': '${data}/etcd',
    'listen-client-urls': `http://${host}:${port}`,
    'advertise-client-urls': `http://${host}:${port}`,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `default=${peers}`,
  };
  return {
    name: 'etcd',
    binary: { name: 'etcd', version: defaultVersions.etcd },
    args: ['--config-file=${files}/etcd.json'],
    env: {},
    files: [{ path: 'etcd.json', content: JSON.stringify(configuration), mode: 0o600 }],
    ports: [{ name: 'client', port, host }],
    probe: { scheme: 'http', host, port, path: '/health', timeoutMs: patienceMs },
    dependsOn: [],
    stopTimeoutMs: 5_000,
    data: true,
  };
}

async function composeWorld(engine: EngineInfo): Promise<DriverWorld> {
  await withKubernetesImages(engine);
  const { root, world } = await localWorldParts();
  for (const name of ['kube-apiserver', 'kube-controller-manager'] as const) {
    await mustDocker(engine, [
      'tag',
      imageOf({ name, version }),
      imageOf({ name, version: world.otherVersion }),
    ]);
  }
  const owned = (kind: string[], id: string, format: string): Promise<string> =>
    mustDocker(engine, [...kind, '--filter', `label=skerry.dev/id=${id}`, '--format', format]);
  return {
    ...world,
    makeDriver: () => new ComposeDriver({ root, environment: { ...process.env, ...engine.env } }),
    crash: async (id, component) => {
      const container = `skerry-${id}-${component}-1`;
      const pid = Number(await mustDocker(engine, ['inspect', '--format', '{{.State.Pid}}', container]));
      // The engine names none while it starts a container; a signal to process 0 is one to this one.
      expect(pid).toBeGreaterThan(0);
      // By the kernel: the engine takes what it kills itself for wanted.
      process.kill(pid, 'SIGKILL');
    },
    traces: async (id) => {
      const containers = await owned(['ps', '--all'], id, 'container {{.Names}}');
      const volumes = await owned(['volume', 'ls'], id, 'volume {{.Name}}');
      return [
        ...`${containers}\n${volumes}`.split('\n').filter((line) => line !== ''),
        ...(existsSync(join(root, id)) ? [join(root, id)] : []),
      ];
    },
  };
}
