import { resources } from '../../../kube/index.ts';
import type { Target } from '../generator/protocol.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
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

const changedPods = 50;

const quiet: Side = { name: 'quiet', through: { fair: true } };
const hangs: Side = { name: 'one hangs', through: { fair: true } };

/** A tenant's API server stops answering while its pods change in the super cluster: what others notice. */
export const hanging: Scenario = {
  name: 'hanging',
  summary: `one API server hangs while ${changedPods} of its pods change; another tenant creates --rate pods per second`,
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, options) {
    const { latencyPods: pods, rate, repeats, inFlight, timeoutMs, tenants: tenantCount } = options;
    const rounds: PodRound[] = await runRounds({
      lab,
      options,
      sides: [quiet, hangs],
      prepare: async (targets) => {
        const loads = [
          { target: partiesOf(targets).hanging.name, pods: changedPods, shape: 'burst', inFlight } as const,
        ];
        await lab.generator.request('run', { podPrefix: 'changed', loads, timeoutMs }, lab.signal);
      },
      measure: async (targets, side, repeat) => {
        const { watched, hanging: hung } = partiesOf(targets);
        const loads = [{ target: watched.name, pods, shape: 'rate', perSecond: rate } as const];
        const run = { podPrefix: `r${repeat}`, loads, timeoutMs };
        const measure = () => lab.generator.request('run', run, lab.signal);
        return side === hangs ? whileStopped(lab, hung, measure) : measure();
      },
      count: ({ pods: all }) => all.length,
      describe: ({ pods: all }) => `${all.length} pods`,
    });
    const sides = bySide(rounds);
    const ready = (statistic: 'p50' | 'p99') => medianOfPods((all) => readyTimes(all)[statistic]);
    const quietP99 = ready('p99')(sides.get(quiet.name) ?? []);
    return {
      settings: { pods, ratePerSecond: rate, changedPods, repeats, tenants: tenantCount },
      rounds,
      tables: [
        groupTable<PodRound>(
          `hanging: ${rate} pods/s in one of ${tenantCount} tenants, ${pods} pods, while another's API server hangs`,
          ['side', sides],
          {
            'Ready p50, ms': ready('p50'),
            'p99, ms': ready('p99'),
            'p99 to quiet': (all) => renderCell(ready('p99')(all) / quietP99),
            'never Ready': allNeverReady,
          },
        ),
      ],
      figures: [...sides].flatMap(([side, all]) =>
        figure(
          `${side}, Ready p99`,
          'ms',
          all.map(({ result }) => readyTimes(result.pods).p99),
        ),
      ),
      plots: [],
    };
  },
};

function partiesOf(targets: readonly Target[]): { watched: Target; hanging: Target } {
  const [watched, ...others] = targets;
  const last = others.at(-1);
  if (watched === undefined || last === undefined)
    throw new Error('hanging needs two tenants: one that hangs and one to watch; give --tenants 2 or more');
  return { watched, hanging: last };
}

/** Stops the API server of a tenant by SIGSTOP, changes its pods in the super cluster, and lets it go on afterwards. */
async function whileStopped<T>(lab: Lab, { name }: Target, work: () => Promise<T>): Promise<T> {
  const tenant = lab.tenants.get(name);
  const server = (await lab.processes()).find(
    (process) => process.tenant === tenant?.status?.id && process.component === 'kube-apiserver',
  );
  if (tenant === undefined || server === undefined)
    throw new Error('hanging stops a process of the stack, which runs elsewhere: leave out --kubeconfig');
  process.kill(server.pid, 'SIGSTOP');
  try {
    const labelSelector = `skerry.dev/tenant=${tenant.metadata.uid}`;
    const { items } = await lab.client.list(resources.pods, { labelSelector, signal: lab.signal });
    for (const { metadata } of items.slice(0, changedPods)) {
      const ref = { namespace: metadata.namespace, name: metadata.name ?? '' };
      const change = { status: { message: 'changed' } };
      const options = { type: 'merge', subresource: 'status', signal: lab.signal } as const;
      await lab.client.patch(resources.pods, ref, change, options);
    }
    return await work();
  } finally {
    process.kill(server.pid, 'SIGCONT');
  }
}
