import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import { itInTestAll } from '../../kube/testing/broad.ts';
import { scriptRunBy } from '../../scripts/docs-commands.ts';
import { Binaries, defaultCacheDirectory, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { loadRights } from '../../vc-manager/rights.ts';
import { patiently, poll } from '../harness/poll.ts';
import { pageOf, Reader } from '../harness/reader.ts';
import { expectAllServed, whileAsked } from '../harness/steady-load.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { docker, mustDocker } from './engine/engine.ts';
import { repository, withKubernetesImages, withRedisImage, withSkerryImages } from './images/index.ts';

interface Listed {
  Service: string;
  State: string;
  Health: string;
  ExitCode: number;
}

interface Review {
  status: { userInfo: { username: string } };
}

const { signal } = new AbortController();
const binaries = new Binaries({ cacheDir: defaultCacheDirectory(process.env), env: process.env });
const tenant = 'team-blue';
const ns = 'shop';

describeWithEngine('docker compose up', (engine) => {
  const env = { SKERRY_NODES: '2' };
  const home = mkdtempSync(join(tmpdir(), 'skerry-compose-'));
  let reader: Reader;
  const settings = join(repository, 'deploy', 'compose', 'local.env');
  const compose = (args: readonly string[], more: Record<string, string> = {}) =>
    docker(
      engine,
      ['compose', '--file', join(repository, 'docker-compose.yml'), '--env-file', settings, ...args],
      {
        env: { ...env, ...more },
        timeoutMs: 280_000,
      },
    );
  const must = async (args: readonly string[], more: Record<string, string> = {}): Promise<string> => {
    const { exitCode, stdout, stderr } = await compose(args, more);
    if (exitCode !== 0) {
      const { stdout: logs } = await compose(['logs', '--no-color', '--tail', '15']);
      throw new Error(`docker compose ${args.join(' ')} failed: ${stderr}\n${logs}`);
    }
    return stdout;
  };
  const here = 'test/docker/compose-stack.test.ts';
  /** By what docs/docker.md says. */
  const up = () => {
    const words = { 'deploy/compose/local.env': settings, ' up ': ' --profile ha up --detach ' };
    return reader.run('up', scriptRunBy(pageOf('docs/docker.md'), here, 'docker compose --env-file', words));
  };
  /** With images that are there. */
  const detached = { 'docker compose up': 'docker compose up --detach --no-build --pull never' };
  const cli = (...args: string[]) => must(['exec', '-T', 'vc-manager', 'vc-manager', ...args]);
  const services = async (): Promise<Listed[]> =>
    (await must(['--profile', 'ha', 'ps', '--all', '--format', 'json']))
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Listed);

  /** Until the step that is last has ended well, and these services are healthy beside the usual ones. */
  const settled = async (...more: string[]): Promise<void> => {
    const id = await must(['ps', '--all', '--quiet', 'nodes-ready']);
    expect(await mustDocker(engine, ['wait', id])).toBe('0');
    const healthy = async (): Promise<string[]> =>
      (await services()).filter(({ Health }) => Health === 'healthy').map(({ Service }) => Service);
    await expect
      .poll(healthy, { interval: 1000 })
      .toEqual(expect.arrayContaining(['redis', 'vc-manager', 'vc-syncer', 'vc-gateway', ...more]));
  };

  /** Processes of control planes, by their numbers on this machine. */
  const controlPlanes = async (): Promise<string[]> => {
    const listed = await mustDocker(engine, [
      'top',
      await must(['ps', '--quiet', 'tenants']),
      '-o',
      'pid,comm',
    ]);
    return listed.split('\n').filter((line) => /kube-(apiserver|controller)/.test(line));
  };

  /** As a person does who has only the container. */
  const kubectl = async (args: readonly string[], input = ''): Promise<string> => {
    const kubeconfig = await cli('kubeconfig', tenant);
    const program = [
      "const { spawnSync } = require('node:child_process'), fs = require('node:fs');",
      "fs.writeFileSync('/tmp/tenant.kubeconfig', process.env.KUBECONFIG_TEXT);",
      "const run = spawnSync('kubectl', ['--kubeconfig', '/tmp/tenant.kubeconfig', ...JSON.parse(process.env.ARGUMENTS)], { input: process.env.INPUT, stdio: ['pipe', 'inherit', 'inherit'] });",
      'process.exit(run.status);',
    ].join('\n');
    return must([
      ...[
        'exec',
        '-T',
        '--env',
        `KUBECONFIG_TEXT=${kubeconfig}`,
        '--env',
        `ARGUMENTS=${JSON.stringify(args)}`,
      ],
      ...['--env', `INPUT=${input}`, 'vc-manager', 'node', '-e', program],
    ]);
  };

  beforeAll(async () => {
    await withSkerryImages(engine);
    await withKubernetesImages(engine);
    await withRedisImage(engine);
    const kubectl = await binaries.ensure(
      { name: 'kubectl', version: defaultVersions.kubernetes },
      { signal },
    );
    const composeFile = { COMPOSE_FILE: join(repository, 'docker-compose.yml'), COMPOSE_ENV_FILES: settings };
    const profile = { COMPOSE_PROFILES: 'ha' };
    reader = new Reader(
      home,
      { kubectl: kubectl.path },
      { ...env, ...engine.env, ...composeFile, ...profile },
    );
  });

  afterAll(async () => {
    await compose(['--profile', 'ha', 'down', '--volumes', '--timeout', '20']);
    rmSync(home, { recursive: true, force: true });
  });

  it('refuses a wrong setting before any server is started, and names it', async () => {
    const { exitCode, stderr } = await compose(['up', '--no-build', '--pull', 'never', 'etcds-ready'], {
      SKERRY_NODES: 'many',
    });
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain('prepare');
    const { stdout, stderr: logged } = await compose(['logs', '--no-color', 'prepare']);
    expect(`${stdout}${logged}`).toContain('Give a whole number from 0 to 2048');
    expect(
      (await services()).find(({ Service, State }) => Service === 'etcd' && State === 'running'),
    ).toBeUndefined();
    await must(['down', '--volumes']);
  });

  it('brings everything up, in the order of health, with the profile ha', async () => {
    await up();
    await settled('vc-manager-2', 'vc-syncer-2');
    const listed = await services();
    const state = (name: string) => listed.find(({ Service }) => Service === name);
    for (const name of ['prepare', 'etcds-ready', 'super-cluster-ready', 'rights-granted', 'nodes-ready'])
      expect(state(name), name).toMatchObject({ State: 'exited', ExitCode: 0 });
    for (const name of ['vc-manager', 'vc-manager-2', 'vc-syncer', 'vc-syncer-2', 'vc-gateway', 'redis'])
      expect(state(name), name).toMatchObject({ State: 'running', Health: 'healthy' });
    for (const name of [
      'etcd',
      'datastore',
      'kube-apiserver',
      'kube-scheduler',
      'kube-controller-manager',
      'kwok',
      'tenants',
    ])
      expect(state(name), name).toMatchObject({ State: 'running' });
  });

  it('gives a tenant by the command line in the container, whose pod becomes Running', async () => {
    const words = { 'team-blue': tenant, ...detached };
    await reader.run('README.md', scriptRunBy(pageOf('README.md'), here, 'docker compose up', words));
    expect(readFileSync(join(home, `${tenant}.kubeconfig`), 'utf8')).toContain('kind: Config');
    await kubectl(['create', 'namespace', ns]);
    // Without it pods are refused; the tenant's controllers make it in their own time.
    const account = ['--for=create', 'serviceaccount/default', patiently];
    await kubectl(['wait', '--namespace', ns, ...account]);
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'web', namespace: ns },
      spec: { containers: [{ name: 'main', image: 'example.com/web' }] },
    };
    await kubectl(['apply', '-f', '-'], JSON.stringify(pod));
    await kubectl([
      'wait',
      '--namespace',
      ns,
      '--for=jsonpath={.status.phase}=Running',
      'pod/web',
      patiently,
    ]);
  });

  it('serves the dashboard', async () => {
    const ask = "fetch('http://127.0.0.1:20490/').then(async (page) => console.log(await page.text()))";
    const page = await must(['exec', '-T', 'vc-manager', 'node', '-e', ask]);
    expect(page).toContain('<title>Skerry');
  });

  it('lets each program do what the chart lets it do, and nothing else', async () => {
    const admin = '/var/lib/skerry/super-cluster/admin.kubeconfig';
    for (const [service, program] of [
      ['vc-manager', 'manager'],
      ['vc-syncer', 'syncer'],
      ['vc-gateway', 'gateway'],
    ] as const) {
      const id = await must(['ps', '--quiet', service]);
      const args = JSON.parse(
        await mustDocker(engine, ['inspect', '--format', '{{json .Args}}', id]),
      ) as string[];
      const kubeconfig = args.find((each) => each.startsWith('--kubeconfig=')) ?? '';
      const asks = (...words: string[]) => compose(['exec', '-T', service, 'kubectl', kubeconfig, ...words]);
      const { stdout } = await asks('auth', 'whoami', '--output=json');
      expect((JSON.parse(stdout) as Review).status.userInfo).toMatchObject({ username: `skerry-${program}` });
      expect((await asks('auth', 'can-i', 'create', 'clusterroles')).stdout).toBe('no');
      const role = ['get', 'clusterrole', `skerry-${program}`, '--output=json'];
      const granted = await must(['exec', '-T', 'vc-manager', 'kubectl', `--kubeconfig=${admin}`, ...role]);
      const rights = await loadRights(join(repository, 'deploy', 'chart'), program);
      expect((JSON.parse(granted) as { rules: unknown }).rules).toEqual(rights.cluster);
      expect(await must(['logs', '--no-color', service])).not.toContain('is forbidden');
    }
    // Of the other's files neither sees more than the empty directory that the image has for them.
    for (const [service, other] of [
      ['vc-syncer', 'vc-gateway'],
      ['vc-gateway', 'vc-syncer'],
    ] as const) {
      const list = (directory: string) =>
        must([
          'exec',
          '-T',
          service,
          'node',
          '-p',
          `fs.readdirSync("/var/lib/skerry/stack${directory}").join()`,
        ]);
      expect([await list(''), await list(`/${other}`)]).toEqual(['vc-gateway,vc-syncer', '']);
    }
  });

  it('runs nothing as root, nor with a right of its own, and lets all write to volumes of the project alone', async () => {
    const ids = (await must(['--profile', 'ha', 'ps', '--quiet'])).split('\n').filter(Boolean);
    const inspected = JSON.parse(await mustDocker(engine, ['inspect', ...ids])) as {
      Name: string;
      Config: { User: string };
      HostConfig: {
        Privileged: boolean;
        ReadonlyRootfs: boolean;
        CapDrop: string[];
        Tmpfs?: Record<string, string> | null;
      };
      Mounts: { Type: string; Name?: string; Source: string }[];
    }[];
    for (const { Name, Config, HostConfig, Mounts } of inspected) {
      expect({ Name, user: Config.User }).toEqual({ Name, user: '65532:65532' });
      expect(HostConfig).toMatchObject({ Privileged: false, ReadonlyRootfs: true, CapDrop: ['ALL'] });
      // So that `down` keeps what servers have written: it leaves volumes that have a name.
      for (const { Type, Name: volume } of Mounts)
        if (Type !== 'tmpfs') expect([Name, volume]).toEqual([Name, expect.stringMatching(/^skerry_/)]);
      if (/-(etcd|datastore)-/.test(Name)) {
        expect(Mounts.map(({ Name: volume }) => volume)).toEqual(['skerry_stack']);
        expect(HostConfig.Tmpfs ?? {}).toEqual({});
      }
    }
  });

  itInTestAll('keeps tenants and their objects over down and up', async () => {
    await must(['--profile', 'ha', 'down', '--timeout', '30']);
    expect(await services()).toEqual([]);
    await up();
    await settled('vc-manager-2', 'vc-syncer-2');
    // The manager starts the tenant's own control plane again when it leads.
    const answers = (): Promise<boolean> =>
      kubectl(['get', '--raw', '/readyz']).then(
        () => true,
        () => false,
      );
    await poll('the API server of the tenant', answers);
    const pod = parse(
      await kubectl(['get', 'pod', 'web', '--namespace', ns, '--output', 'yaml', '--request-timeout=180s']),
    ) as { status: { phase: string } };
    expect(pod.status.phase).toBe('Running');
  });

  itInTestAll(
    'with the profile ha has a manager that takes over, and tenants that notice nothing',
    async () => {
      const holder = await cli('container-stack', 'healthy');
      const managers = ['vc-manager', 'vc-manager-2'];
      const [first = '', second = ''] = holder === 'compose-1 works' ? managers.toReversed() : managers;
      await expect.poll(controlPlanes).toHaveLength(2);
      const running = await controlPlanes();
      const kubeconfig = await cli('kubeconfig', tenant);
      const client = await whileAsked(kubeconfig, 'manager and Redis killed', async () => {
        await must(['--profile', 'ha', 'kill', '--signal', 'SIGKILL', first, 'redis']);
        const other = (...args: string[]) =>
          must(['--profile', 'ha', 'exec', '-T', second, 'vc-manager', ...args]);
        await expect
          .poll(() => other('container-stack', 'healthy').catch(() => holder), {
            interval: 1000,
          })
          .not.toBe(holder);
        await must(['--profile', 'ha', 'start', 'redis', first]);
        await other('create', 'team-red', '--wait');
        expect(await other('list')).toContain('team-red');
      });
      expectAllServed(client);
      expect(await controlPlanes()).toEqual(expect.arrayContaining(running));
    },
  );

  it('gives tenants to kubectl of this machine, and leaves nothing behind when it is told to remove its volumes', async () => {
    const words = { 'team-blue': 'team-green', ...detached };
    const script = scriptRunBy(pageOf('docs/docker.md'), here, 'docker compose up', words);
    expect((await reader.run('docs/docker.md', script)).stdout).toMatch(/^kube-system +Active/m);
    expect(await mustDocker(engine, ['volume', 'ls', '--quiet'])).toBe('');
    expect(
      await mustDocker(engine, [
        'ps',
        '--all',
        '--quiet',
        '--filter',
        'label=com.docker.compose.project=skerry',
      ]),
    ).toBe('');
  });
});
