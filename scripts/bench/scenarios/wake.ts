import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { resources, withClient } from '../../../kube/index.ts';
import type { Lab } from '../lab.ts';
import { renderCell } from '../markdown.ts';
import { cumulative, lineChart } from '../plot.ts';
import { figure, type Scenario } from '../scenario.ts';
import { distribution } from '../statistics.ts';

const sleeper = 'sleeper';
const answerTimeoutMs = 60_000;

/** A tenant is put to sleep again and again: how long its first request takes, the connection to the gateway included. */
export const wake: Scenario = {
  name: 'wake',
  summary:
    'first request to a tenant that is asleep, until its answer; on a stack with a gateway, --creates times',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, { creates: wakes, driver }) {
    await lab.request(sleeper);
    try {
      const options = await lab.tenants.waitUntilUsable(sleeper, lab.signal);
      assertHasGateway(lab.tenants.get(sleeper), 'wake');
      const seconds: number[] = [];
      for (let round = 0; round < wakes; round++) {
        await lab.tenants.waitUntilSynced(sleeper, lab.signal);
        await lab.tenants.putToSleep(sleeper, lab.signal);
        await lab.waitUntilQuiet();
        const from = performance.now();
        await withClient({ ...options, requestTimeoutMs: answerTimeoutMs }, (client) =>
          client.list(resources.namespaces, { signal: lab.signal }),
        );
        seconds.push((performance.now() - from) / 1000);
        lab.log(`wake ${round + 1} of ${wakes}: ${renderCell(seconds.at(-1) ?? Number.NaN)} s`);
      }
      const { p50, p90, p99, max } = distribution(seconds);
      return {
        settings: { wakes, driver },
        rounds: seconds,
        figures: figure('asleep until the answer', 's', seconds),
        tables: [
          {
            title: `wake: ${wakes} times`,
            columns: ['from the request, s', 'p50', 'p90', 'p99', 'longest'],
            rows: [['until `get namespaces` answers', p50, p90, p99, max]],
            notes: [],
          },
        ],
        plots: lineChart({
          name: 'wake',
          title: 'wake: from the request until its answer',
          x: { label: 'seconds' },
          y: { label: '% of wakes', max: 100 },
          lines: [cumulative('asleep', seconds)],
        }),
      };
    } finally {
      await remove(lab);
    }
  },
};

/** Without a gateway nothing wakes a tenant, and what replaces its API server has the same address. */
export function assertHasGateway(vc: VirtualCluster | undefined, scenario: string): void {
  if (vc?.status?.gateway !== undefined) return;
  throw new Error(
    `the scenario ${scenario} needs a stack with a gateway: start one with "vc-manager up" and give its directory with ` +
      '--state-dir, or a super cluster whose chart has gateway.enabled with --kubeconfig',
  );
}

async function remove(lab: Lab): Promise<void> {
  if (!lab.signal.aborted) await lab.removeTenant(sleeper);
}
