import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster, VirtualClusterSpec } from '../../../api/virtual-cluster.ts';
import { defaultVersions } from '../../../vc-manager/binaries/index.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { figure, type Scenario } from '../scenario.ts';
import { median } from '../statistics.ts';
import { SteadyClient } from '../steady-client.ts';
import { assertHasGateway } from './wake.ts';

const changed = 'changed';
/** Before the change, and after it. */
const servedBeside = 20;

/** What became of the requests of a client while one change was made. */
interface Round {
  what: string;
  requests: number;
  failed: number;
  /** Sent again, as they crossed the end of the earlier API server. */
  repeated: number;
  slowestMs: number;
  /** From the request for the change until its end. */
  seconds: number;
}

interface Change {
  what: string;
  /** Of the tenant before. */
  spec: VirtualClusterSpec;
  patch: object;
  isDone: (vc: VirtualCluster) => boolean;
}

/** A client asks all the time while its API server is replaced: how many requests fail. */
export const change: Scenario = {
  name: 'change',
  summary:
    'a client asks 20 times a second while certificates, arguments and, with --from-version, the version change; on a stack with a gateway',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, { repeats, fromVersion, driver }) {
    const rounds: Round[] = [];
    for (const each of changesOf(fromVersion)) {
      for (let repeat = 0; repeat < repeats; repeat++) {
        rounds.push(await measure(lab, each));
      }
    }
    const byChange = Map.groupBy(rounds, ({ what }) => what);
    const sum = (some: readonly Round[], field: 'requests' | 'failed' | 'repeated'): number =>
      some.reduce((before, round) => before + round[field], 0);
    return {
      settings: { repeats, driver, fromVersion },
      rounds,
      figures: [...byChange].flatMap(([what, some]) => [
        ...figure(
          `${what}, failed requests`,
          '',
          some.map(({ failed }) => failed),
        ),
        ...figure(
          `${what}, until its end`,
          's',
          some.map(({ seconds }) => seconds),
        ),
      ]),
      tables: [
        groupTable<Round>(`change: ${repeats} times each`, ['change of', byChange], {
          requests: (some) => String(sum(some, 'requests')),
          failed: (some) => String(sum(some, 'failed')),
          'sent again': (some) => String(sum(some, 'repeated')),
          'slowest, ms': (some) => Math.max(...some.map(({ slowestMs }) => slowestMs)),
          'until its end, s': (some) => median(some.map(({ seconds }) => seconds)),
        }),
      ],
      plots: [],
    };
  },
};

function changesOf(fromVersion: string | undefined): Change[] {
  const now = new Date().toISOString();
  const { kubernetes } = defaultVersions;
  const certificates: Change = {
    what: 'certificates',
    spec: {},
    patch: { metadata: { annotations: { [annotationKeys.renewCertificates]: now } } },
    isDone: ({ status }) => status?.jobs?.renewed === now,
  };
  const args: Change = {
    what: 'arguments',
    spec: { policy: { podSecurity: 'baseline' } },
    patch: { spec: { policy: { podSecurity: 'restricted' } } },
    isDone: ({ metadata, status }) =>
      status?.policy?.podSecurity === 'restricted' && status.observedGeneration === metadata.generation,
  };
  if (fromVersion === undefined) return [certificates, args];
  const version: Change = {
    what: `version, ${fromVersion} to ${kubernetes}`,
    spec: { version: fromVersion },
    patch: { spec: { version: kubernetes } },
    isDone: ({ status }) => status?.version === kubernetes,
  };
  return [certificates, args, version];
}

async function measure(lab: Lab, { what, spec, patch, isDone }: Change): Promise<Round> {
  const { tenants, signal } = lab;
  await lab.request(changed, spec);
  try {
    const options = await tenants.waitUntilUsable(changed, signal);
    assertHasGateway(tenants.get(changed), 'change');
    await tenants.waitUntilSynced(changed, signal);
    await lab.waitUntilQuiet();
    const client = new SteadyClient(options);
    try {
      await client.answered(servedBeside);
      const from = performance.now();
      await tenants.change(changed, patch, isDone, signal);
      const seconds = (performance.now() - from) / 1000;
      await client.served(servedBeside);
      await client.close();
      lab.log(`${client.describe(what)} ${renderCell(seconds)} s`);
      const { answers, failures, repeats } = client;
      const slowestMs = Math.max(...answers.map(({ tookMs }) => tookMs));
      return {
        ...{ what, requests: answers.length, failed: failures.length, repeated: repeats.length },
        ...{ slowestMs, seconds },
      };
    } finally {
      await client.close();
    }
  } finally {
    if (!signal.aborted) await lab.removeTenant(changed);
  }
}
