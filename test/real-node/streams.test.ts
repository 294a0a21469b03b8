import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { execa } from 'execa';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resources } from '../../kube/index.ts';
import { namespace, pod, service } from '../harness/manifests.ts';
import { patienceMs, patiently } from '../harness/poll.ts';
import { type Tenant, World } from '../harness/world.ts';
import { hasSaid, idlePod, images, inPod, script, shellInPod, untilReady, webPod } from './suite/pods.ts';

const ns = 'streams';
/** More than any stream on the way holds back. */
const megabytes = 10;
/**
 * Less than takes until the first SPDY ping, after 5 s, on a slow machine, too: one that comes when the runtime has closed and
 * kubectl still reads cuts the copy off (kubernetes/kubernetes#60140).
 */
const megabytesOfSpdy = 1;
/** The size comes after the terminal, in a message of its own. */
const terminal = 'tty; while [ "$(stty size)" = "0 0" ]; do sleep 0.1; done; stty size';

const spdy = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: 'false', KUBECTL_PORT_FORWARD_WEBSOCKETS: 'false' };
const protocols: [name: string, env: Record<string, string>, upgrade: RegExp, copied: number][] = [
  ['WebSocket', {}, /Upgrade: websocket|v5\.channel\.k8s\.io/i, megabytes],
  ['SPDY', spdy, /SPDY\/3\.1/, megabytesOfSpdy],
];

describe('streams between kubectl and containers', () => {
  let world: World;
  let tenant: Tenant;
  let other: Tenant;

  beforeAll(async () => {
    world = new World(inject('stack'));
    [tenant, other] = await world.joinTenants(ns);
    await tenant.apply(
      namespace(ns),
      idlePod(ns, 'idle'),
      webPod(ns, 'web'),
      service(ns, 'web'),
      pod(ns, 'reader', {
        containers: [
          script('(while sleep 0.2; do echo waiting; done) & while read line; do echo "read $line"; done', {
            stdin: true,
          }),
        ],
      }),
      pod(ns, 'teller', {
        containers: [
          script('echo one; echo two; echo three; touch /tmp/said; exec sleep 3600', {
            readinessProbe: hasSaid,
          }),
          {
            ...script('echo beside; touch /tmp/said; exec sleep 3600', { readinessProbe: hasSaid }),
            name: 'beside',
          },
        ],
      }),
    );
    await untilReady(tenant, ns, 'idle', 'web', 'reader', 'teller');
  });

  afterAll(() => world?.close());

  const args = (...words: string[]): string[] => ['--kubeconfig', tenant.kubeconfigFile, '-n', ns, ...words];
  const { kubectl } = inject('stack');

  it('logs: all, the last, of one container, with times, of the time since', async () => {
    const logs = (...words: string[]): Promise<string> =>
      tenant.kubectl('-n', ns, 'logs', 'teller', ...words);
    expect(await logs('-c', 'main')).toBe('one\ntwo\nthree');
    expect(await logs('-c', 'main', '--tail=1')).toBe('three');
    expect(await logs('-c', 'beside')).toBe('beside');
    expect(await logs('-c', 'main', '--timestamps')).toMatch(/^\d{4}-\d\d-\d\dT\S+Z one\n/);
    expect((await logs('--all-containers', '--prefix')).split('\n')).toHaveLength(4);
    expect(await logs('-c', 'main', '--since=1h')).toBe('one\ntwo\nthree');
    const later = new Date(Date.now() + 3_600_000).toISOString().replace(/\.\d+/, '');
    expect(await logs('-c', 'main', `--since-time=${later}`)).toBe('');
    expect(await logs('-c', 'main', '--limit-bytes=5')).toBe('one\nt');
    const wrong = await tenant.tryKubectl(['-n', ns, 'logs', 'teller', '-c', 'nobody']);
    expect(wrong.stderr).toContain('nobody is not valid for pod teller');
  });

  it('logs -f shows what is written as it is written, and ends with the pod', async () => {
    await tenant.apply(pod(ns, 'brief', { containers: [script('echo begun; exec sleep 3600')] }));
    await untilReady(tenant, ns, 'brief');
    const following = execa(kubectl, args('logs', '-f', 'brief'), {
      reject: false,
      buffer: false,
      timeout: patienceMs,
    });
    const lines: string[] = [];
    const say = (word: string): Promise<string> =>
      shellInPod(tenant, { namespace: ns, name: 'brief' }, `echo ${word} > /proc/1/fd/1`);
    for await (const line of following) {
      lines.push(line);
      if (line === 'begun') await say('first');
      if (line === 'first') await say('second');
      if (line === 'second') await tenant.kubectl('-n', ns, 'delete', 'pod', 'brief', '--wait=false');
    }
    const { exitCode } = await following;
    expect({ exitCode, lines }).toEqual({ exitCode: 0, lines: ['begun', 'first', 'second'] });
  });

  it('logs --previous shows the container that died', async () => {
    await tenant.apply(
      pod(ns, 'twice', {
        containers: [
          script('[ -e /kept/been ] && exec sleep 3600; touch /kept/been; echo dying; exit 3', {
            volumeMounts: [{ name: 'kept', mountPath: '/kept' }],
          }),
        ],
        volumes: [{ name: 'kept', emptyDir: {} }],
      }),
    );
    await tenant.kubectl(
      ...['-n', ns, 'wait', 'pod/twice', patiently],
      '--for=jsonpath={.status.containerStatuses[0].restartCount}=1',
    );
    await untilReady(tenant, ns, 'twice');
    expect(await tenant.kubectl('-n', ns, 'logs', 'twice', '--previous')).toBe('dying');
  });

  for (const [protocol, env, upgrade, copied] of protocols) {
    describe(`over ${protocol}`, () => {
      const run = (words: string[], input?: string) =>
        tenant.tryKubectl(['-n', ns, ...words], { env, ...(input === undefined ? {} : { input }) });

      it('exec: output, errors and exit code come apart', async () => {
        const done = await run(['exec', 'idle', '--', 'sh', '-c', 'echo out; echo err >&2; exit 7']);
        expect(done.stdout).toBe('out');
        expect(done.stderr).toMatch(/^err\n.*exit code 7/s);
        expect(done.exitCode).toBe(7);
        const shown = await run(['exec', '-v=9', 'idle', '--', 'true']);
        expect(shown.stderr).toMatch(upgrade);
        expect((await run(['exec', 'idle', '--', 'no-such-program'])).exitCode).not.toBe(0);
      });

      it('exec -i: input arrives whole, and its end, too', async () => {
        const input = randomBytes(2_000_000).toString('base64');
        const { stdout, stderr } = await run(['exec', '-i', 'idle', '--', 'sha256sum'], input);
        expect(stdout.split(' ')[0], stderr).toBe(createHash('sha256').update(input).digest('hex'));
      });

      it('exec -it: a terminal of the size of ours', async () => {
        // `script` gives kubectl a terminal of its own.
        const line = [kubectl, ...args('exec', '-it', 'idle', '--', 'sh', '-c', `'${terminal}'`)].join(' ');
        const { stdout } = await execa('script', ['-qec', `stty cols 91 rows 33; ${line}`, '/dev/null'], {
          env,
          timeout: patienceMs,
          // Its end would be typed, too.
          stdin: 'pipe',
        });
        expect(stdout.replaceAll('\r', '')).toMatch(/\/dev\/pts\/\d+\n33 91/);
      });

      it('attach: what is typed reaches the process, and its answer comes back', async () => {
        const attached = execa(kubectl, args('attach', '-i', 'reader'), {
          env,
          reject: false,
          buffer: false,
          stdin: 'pipe',
          timeout: patienceMs,
        });
        const word = `hello-${protocol}`;
        let isTyped = false;
        for await (const line of attached) {
          // Not sooner: containerd passes input on before it listens to the output, and the answer would be lost.
          if (!isTyped) attached.stdin.write(`${word}\n`);
          isTyped = true;
          if (line === `read ${word}`) attached.kill();
        }
        expect((await attached).isTerminated).toBe(true);
      });

      it('port-forward: to a pod and to a Service, several connections at once', async () => {
        for (const target of ['pod/web', 'service/web']) {
          const port = target === 'pod/web' ? 8080 : 80;
          const forwarding = execa(kubectl, args('port-forward', target, `:${port}`), {
            env,
            reject: false,
            buffer: false,
            timeout: patienceMs,
          });
          let local = 0;
          for await (const line of createInterface({ input: forwarding.stdout })) {
            local = Number(/^Forwarding from 127\.0\.0\.1:(\d+)/.exec(line)?.[1] ?? 0);
            if (local > 0) break;
          }
          try {
            const answers = await Promise.all(
              Array.from({ length: 8 }, async () => {
                const answer = await fetch(`http://127.0.0.1:${local}/hostname`);
                return answer.text();
              }),
            );
            expect(answers, target).toEqual(Array(8).fill('web'));
          } finally {
            forwarding.kill();
            await forwarding;
          }
        }
      });

      it(`cp: ${copied} MB into a pod and back are the same bytes`, async () => {
        const there = world.file(`there-${protocol}`);
        const back = world.file(`back-${protocol}`);
        writeFileSync(there, randomBytes(copied * 1_000_000));
        const hash = await hashOf(there);
        const copy = (from: string, to: string) =>
          execa(kubectl, args('cp', '--retries=0', from, to), {
            env,
            timeout: patienceMs,
            cwd: '/',
          });
        await copy(there, `idle:/tmp/copied-${protocol}`);
        const inside = await inPod(
          tenant,
          { namespace: ns, name: 'idle' },
          'sha256sum',
          `/tmp/copied-${protocol}`,
        );
        expect(inside.split(' ')[0]).toBe(hash);
        await copy(`idle:/tmp/copied-${protocol}`, back);
        expect(await hashOf(back)).toBe(hash);
      });
    });
  }

  it('debug: a container beside the others sees their processes', async () => {
    await tenant.kubectl(
      ...[
        '-n',
        ns,
        'debug',
        'idle',
        `--image=${images.busybox}`,
        '--container=looking',
        '--target=main',
        '--profile=baseline',
      ],
      ...['--image-pull-policy=IfNotPresent', '--attach=false', '--', 'sh', '-c', 'ps; sleep 600'],
    );
    await tenant.until(
      { resource: resources.pods, namespace: ns, name: 'idle', what: 'the debugging container to run' },
      ([found]) =>
        (found?.['status'] as { ephemeralContainerStatuses?: { state?: { running?: object } }[] })
          ?.ephemeralContainerStatuses?.[0]?.state?.running,
    );
    const seen = execa(kubectl, args('logs', '-f', 'idle', '-c', 'looking'), {
      reject: false,
      buffer: false,
      timeout: patienceMs,
    });
    const lines: string[] = [];
    for await (const line of seen) {
      lines.push(line);
      if (line.includes('/agnhost pause')) seen.kill();
    }
    expect(lines.join('\n')).toContain('/agnhost pause');
  });

  it('the API of pods: proxy to a port of one', async () => {
    expect(
      await tenant.kubectl('get', '--raw', `/api/v1/namespaces/${ns}/pods/web:8080/proxy/hostname`),
    ).toBe('web');
    expect(
      await tenant.kubectl('get', '--raw', `/api/v1/namespaces/${ns}/services/web:80/proxy/hostname`),
    ).toBe('web');
  });

  it('top: of the own pods and nodes, and of nobody else', async () => {
    await tenant.kubectl(...['wait', 'apiservice/v1beta1.metrics.k8s.io', '--for=create', patiently]);
    await tenant.kubectl(
      ...['wait', 'apiservice/v1beta1.metrics.k8s.io', '--for=condition=Available', patiently],
    );
    // Discovery asks for itself, and later.
    await expect.poll(() => tenant.kubectl('api-versions')).toContain('metrics.k8s.io/v1beta1');
    const names = (text: string): string[] =>
      text
        .split('\n')
        .slice(1)
        .map((line) => line.split(/\s+/)[1] ?? '');
    const there = async () =>
      (await tenant.client.list(resources.pods)).items.map(({ metadata }) => metadata.name);
    // Other suites have pods here that come and go.
    const before = await there();
    const pods = names(await tenant.kubectl('top', 'pods', '-A'));
    expect(pods).toContain('web');
    const shown = [...before, ...(await there())];
    expect(pods.filter((name) => !shown.includes(name))).toEqual([]);
    expect(await tenant.kubectl('top', 'nodes')).toMatch(/node-\d/);
  });

  it('nothing of other tenants, and nothing of the node itself, is reached by them', async () => {
    const { items } = await tenant.client.list<{ metadata: { name?: string } } & Record<string, unknown>>(
      resources.nodes,
    );
    expect(items.length).toBeGreaterThan(0);
    for (const { metadata } of items) {
      for (const path of ['runningpods/', 'stats/container', 'logs/', 'metrics', 'configz', 'debug/pprof/']) {
        const asked = await tenant.tryKubectl([
          'get',
          '--raw',
          `/api/v1/nodes/${metadata.name}/proxy/${path}`,
        ]);
        expect(asked.exitCode, path).not.toBe(0);
        expect(asked.stderr, path).toMatch(/\((NotFound|Forbidden)\)/);
      }
    }
  });

  it('pods of one name lead each tenant to its own, and a name that only another has to none', async () => {
    await other.apply(namespace(ns), idlePod(ns, 'idle'));
    await untilReady(other, ns, 'idle');
    for (const each of [tenant, other])
      await shellInPod(each, { namespace: ns, name: 'idle' }, `echo ${each.name} > /tmp/whose`);
    for (const each of [tenant, other])
      expect(await inPod(each, { namespace: ns, name: 'idle' }, 'cat', '/tmp/whose')).toBe(each.name);

    // Past the API server, which knows what pods it has: to the kubelet by the path of a node.
    const { spec } = await other.client.get(resources.pods, { namespace: ns, name: 'idle' });
    const node = (spec as { nodeName: string }).nodeName;
    const logs = (each: Tenant, name: string, container = 'main') =>
      each.tryKubectl([
        'get',
        '--raw',
        `/api/v1/nodes/${node}/proxy/containerLogs/${ns}/${name}/${container}`,
      ]);
    expect(await logs(tenant, 'teller')).toMatchObject({ exitCode: 0, stdout: 'one\ntwo\nthree' });
    expect(await logs(other, 'idle')).toMatchObject({ exitCode: 0 });
    expect(await logs(other, 'teller')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('NotFound'),
    });
    await world.expectAgreement(undefined, patienceMs);
  });
});

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  const stream = createReadStream(file).on('data', (chunk) => hash.update(chunk));
  await once(stream, 'end');
  return hash.digest('hex');
}
