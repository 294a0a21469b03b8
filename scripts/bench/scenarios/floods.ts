import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import {
  Connection,
  isAlreadyExists,
  KubeClient,
  type KubeObject,
  resource,
  resources,
} from '../../../kube/index.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { memoryOf } from '../measure.ts';
import {
  allNeverReady,
  bySide,
  medianOfPods,
  type PodRound,
  readyTimes,
  runRounds,
  type Side,
} from '../rounds.ts';
import { figure, type Scenario } from '../scenario.ts';
import { median } from '../statistics.ts';

/** Does its worst at one tenant until aborted. What is refused does not end it. */
type Flood = (attacker: KubeClient, namespace: string, signal: AbortSignal) => Promise<void>;

const megabyte = 1024 * 1024;
const synced = { 'skerry.dev/sync': 'true' };

/** As many at once, again and again, each with a number of its own. */
async function inLoops(
  count: number,
  signal: AbortSignal,
  work: (n: number) => Promise<unknown>,
): Promise<void> {
  let n = 0;
  const loop = async (): Promise<void> => {
    while (!signal.aborted) await work(n++).catch(() => undefined);
  };
  await Promise.all(Array.from({ length: count }, loop));
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/** Objects that are there before a flood begins. */
async function fill(
  client: KubeClient,
  namespace: string,
  objects: number,
  signal: AbortSignal,
): Promise<void> {
  let left = objects;
  const create = async (): Promise<void> => {
    while (left-- > 0)
      await client
        .create(resources.configMaps, { metadata: { namespace, name: `filler-${left}` } }, { signal })
        .catch((error: unknown) => {
          if (!isAlreadyExists(error)) throw error;
        });
  };
  await Promise.all(Array.from({ length: 20 }, create));
}

const attacks: Readonly<Record<string, Flood>> = {
  'lists of 5,000 objects': async (client, namespace, signal) => {
    await inLoops(8, signal, () =>
      client.raw('GET', `/api/v1/namespaces/${namespace}/configmaps`, { signal }),
    );
  },
  'writes of 1 MB': async (client, namespace, signal) => {
    const data = { value: 'x'.repeat(megabyte - 2_000) };
    const named = (n: number): KubeObject => ({
      metadata: { namespace, name: `large-${n % 4}`, labels: synced },
      data: { ...data, n: String(n) },
    });
    await inLoops(4, signal, async (n) => {
      const object = named(n);
      const ref = { namespace, name: object.metadata.name ?? '' };
      await client
        .create(resources.configMaps, object, { signal })
        .catch(() => client.patch(resources.configMaps, ref, object, { type: 'merge', signal }));
    });
  },
  '10,000 events': async (client, namespace, signal) => {
    await inLoops(8, signal, (n) =>
      n >= 10_000
        ? aborted(signal)
        : client.create(
            resources.events,
            {
              metadata: { namespace, name: `flood-${n}` },
              involvedObject: { kind: 'Namespace', name: namespace, namespace },
              reason: 'Flood',
              type: 'Normal',
            },
            { signal },
          ),
    );
  },
  '1,000 namespaces': async (client, _namespace, signal) => {
    await inLoops(8, signal, (n) =>
      client.create(resources.namespaces, { metadata: { name: `flood-${n % 1_000}` } }, { signal }),
    );
  },
  'webhooks that hang': async (client, namespace, signal) => {
    const trap = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(trap, 'listening');
    const { port } = trap.address() as AddressInfo;
    const webhooks = resource(
      'admissionregistration.k8s.io',
      'v1',
      'validatingwebhookconfigurations',
      'ValidatingWebhookConfiguration',
      false,
    );
    const rule = {
      apiGroups: [''],
      apiVersions: ['v1'],
      operations: ['UPDATE'],
      resources: ['pods', 'pods/*'],
    };
    const webhook = {
      name: 'trap.example.com',
      clientConfig: { url: `https://127.0.0.1:${port}/` },
      rules: [rule],
      timeoutSeconds: 30,
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
    };
    try {
      await client.create(webhooks, { metadata: { name: 'trap' }, webhooks: [webhook] }, { signal });
      await inLoops(4, signal, (n) =>
        n >= 200
          ? aborted(signal)
          : client.create(
              resources.pods,
              {
                metadata: { namespace, name: `trapped-${n}` },
                spec: {
                  automountServiceAccountToken: false,
                  containers: [{ name: 'main', image: 'registry.k8s.io/pause:3.10' }],
                },
              },
              { signal },
            ),
      );
    } finally {
      await client.delete(webhooks, { name: 'trap' }).catch(() => undefined);
      trap.close();
    }
  },
};

/** What has to be there before a flood is measured. */
const prepared: Readonly<Record<string, Flood>> = {
  'lists of 5,000 objects': (client, namespace, signal) => fill(client, namespace, 5_000, signal),
};

const quiet = 'quiet';
const sides: readonly Side[] = [quiet, ...Object.keys(attacks)].map((name) => ({
  name,
  through: { fair: true },
}));

/** Largest resident memory of the syncer, in MB, while something goes on. */
async function syncerMemory<T>(lab: Lab, work: Promise<T>): Promise<{ result: T; megabytes: number }> {
  let most = 0;
  const watching = new AbortController();
  const watch = async (): Promise<void> => {
    while (!watching.signal.aborted) {
      for (const { pid, component } of await lab.processes())
        if (component === 'vc-syncer') most = Math.max(most, ((await memoryOf(pid))?.rss ?? 0) / megabyte);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  };
  const watched = watch();
  try {
    return { result: await work, megabytes: Math.round(most) };
  } finally {
    watching.abort();
    await watched;
  }
}

/** One tenant floods whatever it reaches, another creates a few pods per second: what the other one notices. */
export const floods: Scenario = {
  name: 'floods',
  summary: 'one tenant floods its API server, another creates --rate pods per second',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, options) {
    const { latencyPods: pods, rate, repeats, tenants: tenantCount } = options;
    const memory = new Map<string, number[]>();
    const rounds: PodRound[] = await runRounds({
      lab,
      options,
      sides,
      measure: async ([victim, ...others], side, repeat) => {
        const attacker = others.at(-1);
        if (victim === undefined || attacker === undefined)
          throw new Error('floods needs two tenants: one to attack and one to watch');
        const loads = [{ target: victim.name, pods, shape: 'rate', perSecond: rate } as const];
        const run = { podPrefix: `r${repeat}`, loads, timeoutMs: options.timeoutMs };
        const connection = new Connection({ ...attacker.connection, userAgent: 'skerry-bench' });
        const client = new KubeClient(connection);
        await prepared[side.name]?.(client, attacker.namespace, lab.signal);
        const flood = attacks[side.name];
        const measured = await during(flood && ((signal) => flood(client, attacker.namespace, signal)), () =>
          syncerMemory(lab, lab.generator.request('run', run, lab.signal)),
        );
        await connection.close();
        memory.set(side.name, [...(memory.get(side.name) ?? []), measured.megabytes]);
        return measured.result;
      },
      count: ({ pods: all }) => all.length,
      describe: ({ pods: all }) => `${all.length} pods`,
    });
    const ofSides = bySide(rounds);
    const ready = (statistic: 'p50' | 'p99') => medianOfPods((all) => readyTimes(all)[statistic]);
    const quietP99 = ready('p99')(ofSides.get(quiet) ?? []);
    const title = `floods: ${rate} pods/s in one of ${tenantCount} tenants, ${pods} pods, while another floods`;
    return {
      settings: { pods, ratePerSecond: rate, repeats, tenants: tenantCount },
      rounds,
      tables: [
        groupTable<PodRound>(title, ['flood', ofSides], {
          'Ready p50, ms': ready('p50'),
          'p99, ms': ready('p99'),
          'p99 to quiet': (all) => renderCell(ready('p99')(all) / quietP99),
          'syncer, MB': (all) => renderCell(median(memory.get(all[0]?.side ?? '') ?? [])),
          'never Ready': allNeverReady,
        }),
      ],
      figures: [...ofSides].flatMap(([side, all]) => [
        ...figure(
          `${side}, Ready p99`,
          'ms',
          all.map(({ result }) => readyTimes(result.pods).p99),
        ),
        ...figure(`${side}, syncer`, 'MB', memory.get(side) ?? []),
      ]),
      plots: [],
    };
  },
};

/** Floods while something else goes on, and ends with it. */
async function during<T>(
  flood: ((signal: AbortSignal) => Promise<void>) | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (flood === undefined) return work();
  const ending = new AbortController();
  const flooding = flood(ending.signal).catch((error: unknown) => {
    if (!ending.signal.aborted) throw error;
  });
  try {
    const working = work();
    return await Promise.race([working, flooding.then(() => working)]);
  } finally {
    ending.abort(new Error('the flood is over'));
    await flooding.catch(() => undefined);
  }
}
