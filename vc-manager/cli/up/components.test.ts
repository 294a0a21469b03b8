import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { packageRoot } from '../../../program/package-root.ts';
import type { ComponentPlan } from '../../control-plane/plan.ts';
import type { LocalStackParts } from '../../local-stack/local-stack.ts';
import { gatewayComponent, skerryComponents, syncerComponent } from './components.ts';

const datastore = {
  endpoint: 'https://127.0.0.1:1',
  httpEndpoint: 'https://127.0.0.1:2',
  pkiDirectory: '/pki',
} as LocalStackParts['datastore'];

function local(name: string): ComponentPlan {
  const components = skerryComponents(
    {
      stateDir: '/state',
      env: {},
      superCluster: 'local',
      ports: { metrics: 3, kubelet: 4, gateway: 5, gatewayMetrics: 6 },
      gateway: true,
      bindAddress: '127.0.0.1',
      advertiseAddress: '192.0.2.1',
      tenantEgress: [],
      networkPolicies: 'auto',
      dns: 'none',
      warm: 0,
      warmMemory: undefined,
    },
    { datastore },
  );
  const found = components.find((component) => component.name === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
}

/** Options of Node itself. */
function nodeOptions(name: string): string[] {
  const { args } = local(name);
  return args.slice(
    0,
    args.findIndex((arg) => !arg.startsWith('--')),
  );
}

const read = (...path: string[]): Promise<string> => readFile(join(packageRoot(), ...path), 'utf8');

it('docker-compose.yml has the programs run with the memory and the workers of the local stack', async () => {
  const { services } = parse(await read('docker-compose.yml'), { merge: true }) as {
    services: Record<string, { entrypoint?: string[]; command?: string[]; environment?: object }>;
  };
  for (const [name, program] of [
    ['vc-syncer', syncerComponent],
    ['vc-syncer-2', syncerComponent],
    ['vc-gateway', gatewayComponent],
  ] as const) {
    const entrypoint = ['node', ...nodeOptions(program), `/app/bin/${program}.js`];
    expect([name, services[name]?.entrypoint]).toEqual([name, entrypoint]);
  }
  const workers = local(syncerComponent).args.filter((arg) => arg.startsWith('--workers='));
  expect(workers).toHaveLength(1);
  for (const name of ['vc-syncer', 'vc-syncer-2'])
    expect(services[name]?.command, name).toEqual(expect.arrayContaining(workers));
  for (const name of ['vc-manager', 'vc-manager-2', 'vc-syncer', 'vc-syncer-2', 'vc-gateway'])
    expect(services[name]?.environment, name).toMatchObject({ MALLOC_ARENA_MAX: '2' });
});

it("the chart has the syncer's heap grow as the local stack does", async () => {
  const text = await read('deploy', 'chart', 'templates', 'syncer', 'statefulset.yaml');
  const command = ['node', ...nodeOptions(syncerComponent), '/app/bin/vc-syncer.js'];
  expect(text).toContain(`command: [${command.join(', ')}]`);
  expect(text).toMatch(/name: MALLOC_ARENA_MAX\s+value: "2"/);
});
