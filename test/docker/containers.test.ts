import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Containers, openContainers } from './containers/containers.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { skerryImage, withSkerryImages } from './images/index.ts';

/** Prints a line once it runs, and then only what its signals make of it. */
const nobody = 'https://127.0.0.1:1';
const kubeconfig = JSON.stringify({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'none',
  clusters: [{ name: 'none', cluster: { server: nobody } }],
  contexts: [{ name: 'none', context: { cluster: 'none', user: 'none' } }],
  users: [{ name: 'none', user: { token: 'none' } }],
});

describeWithEngine('Skerry in a container', (engine) => {
  let containers: Containers;

  beforeAll(async () => {
    await withSkerryImages(engine);
    containers = await openContainers(engine);
  });

  afterAll(() => containers?.close());

  const syncer = () =>
    containers
      .container(skerryImage)
      .withEntrypoint(['vc-syncer'])
      .withCommand([
        '--kubeconfig=/etc/skerry/kubeconfig',
        '--metrics-address=127.0.0.1:20681',
        '--kubelet-address=127.0.0.1:20682',
        '--kubelet-advertise=127.0.0.1',
      ])
      .withCopyContentToContainer([{ content: kubeconfig, target: '/etc/skerry/kubeconfig' }]);

  it('ends by itself and in time when it is told to, as the first process of its container', async () => {
    const started = await syncer().start();
    await containers.logged(started, /"level"/);
    await started.stop({ remove: false, timeout: 20_000 });
    const { State } = await containers.inspect(started.getId());
    // 137 would be the engine's patience that had ended.
    expect(State.ExitCode).toBe(0);
    expect(State.OOMKilled).toBe(false);
    await containers.remove(started.getId());
  });

  it('is killed alone when it takes more memory than it was given', async () => {
    const started = await containers
      .container(skerryImage)
      .withEntrypoint(['node'])
      .withCommand(['-e', 'const kept = []; for (;;) kept.push(Buffer.alloc(1 << 20, 1))'])
      .withResourcesQuota({ memory: 0.125 })
      .start();
    // By SIGKILL, which nobody but the kernel sends here. That it was for memory the engine may learn after the end.
    expect(await containers.ended(started.getId())).toMatchObject({ StatusCode: 137 });
    await containers.remove(started.getId());
  });

  it('knows the limit of its memory, and keeps its heap below', async () => {
    const limit = await containers
      .container(skerryImage)
      .withEntrypoint(['node'])
      .withCommand([
        '-e',
        'console.log(JSON.stringify([process.constrainedMemory(), require("v8").getHeapStatistics().heap_size_limit]))',
      ])
      .withResourcesQuota({ memory: 0.5 })
      .start();
    await containers.ended(limit.getId());
    const [constrained, heap] = JSON.parse(await containers.output(limit.getId())) as [number, number];
    expect(constrained).toBe(0.5 * 1024 ** 3);
    expect(heap).toBeLessThan(constrained);
    await containers.remove(limit.getId());
  });
});
