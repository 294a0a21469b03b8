import { usageTable } from '../costs.ts';
import type { Lab } from '../lab.ts';
import { type Cell, renderCell, type Table } from '../markdown.ts';
import { type Usage, UsageMeter } from '../measure.ts';
import { cumulative, lineChart } from '../plot.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { distribution, median } from '../statistics.ts';

/** Milliseconds from the request for a tenant. */
interface Created {
  usableMs: number;
  joinedMs: number;
  removedMs: number;
}

/** Tenants that were asked for together, or one alone. */
interface Batch {
  tenants: Created[];
  usage: Usage;
}

/** Tenants, one at a time and several at once: how long from the request until its admin gets an answer. */
export const create: Scenario = {
  name: 'create',
  summary: 'request for a tenant until its kubeconfig works; alone, and --at-once',
  needsTenants: true,

  async run(lab, options) {
    const { creates, atOnce } = options;
    const alone = await runBatches(lab, { name: 'alone', batches: creates, size: 1 });
    const together = await runBatches(lab, {
      name: 'at-once',
      batches: atOnce === 0 ? 0 : options.repeats,
      size: atOnce,
    });
    const lastUsable = together.map(({ tenants }) => last(tenants));
    return {
      settings: { creates, atOnce, repeats: options.repeats },
      rounds: [...alone, ...together],
      figures: figures(alone, together),
      tables: [
        timeTable(`create: ${creates} tenants, one at a time`, alone),
        ...(together.length === 0
          ? []
          : [
              timeTable(`create: ${atOnce} tenants at once`, together, [
                `The last of them is usable after **${renderCell(median(lastUsable))} s** (median of ${together.length}).`,
              ]),
            ]),
        usageTable('create: CPU, s', [
          ...alone.map(({ usage }, index) => [`alone, ${index + 1}`, usage] as const),
          ...together.map(({ usage }, index) => [`${atOnce} at once, ${index + 1}`, usage] as const),
        ]),
      ],
      plots: lineChart({
        name: 'create',
        title: 'create: from the request until usable',
        x: { label: 'seconds' },
        y: { label: '% of tenants', max: 100 },
        lines: [
          cumulative('one at a time', seconds(alone, 'usableMs')),
          ...(together.length === 0 ? [] : [cumulative(`${atOnce} at once`, seconds(together, 'usableMs'))]),
        ],
      }),
    };
  },
};

async function runBatches(
  lab: Lab,
  { name, batches, size }: { name: string; batches: number; size: number },
): Promise<Batch[]> {
  const all: Batch[] = [];
  const warm = await lab.tenants.warm(lab.signal);
  for (let index = 0; index < batches; index++) {
    await lab.tenants.waitUntilWarm(warm, lab.signal);
    await lab.waitUntilQuiet();
    const names = Array.from({ length: size }, (_, each) => `${name}-${index}-${each}`);
    const meter = new UsageMeter(() => lab.processes());
    await meter.start();
    const created = await Promise.all(names.map((each) => createOne(lab, each)));
    const usage = await meter.stop();
    const removedMs = await Promise.all(names.map((each) => removeOne(lab, each)));
    const tenants = created.map((each, place) => ({ ...each, removedMs: removedMs[place] ?? Number.NaN }));
    all.push({ tenants, usage });
    lab.log(`create ${name}, ${index + 1} of ${batches}: usable after ${renderCell(last(tenants))} s`);
  }
  return all;
}

async function createOne(lab: Lab, name: string): Promise<Omit<Created, 'removedMs'>> {
  const from = performance.now();
  await lab.request(name);
  await lab.tenants.waitUntilUsable(name, lab.signal);
  const usableMs = performance.now() - from;
  await lab.tenants.waitUntilSynced(name, lab.signal);
  return { usableMs, joinedMs: performance.now() - from };
}

async function removeOne(lab: Lab, name: string): Promise<number> {
  const from = performance.now();
  await lab.removeTenant(name);
  return performance.now() - from;
}

function seconds(batches: readonly Batch[], field: keyof Created): number[] {
  return batches.flatMap(({ tenants }) => tenants.map((each) => each[field] / 1000));
}

/** When the last of some tenants was usable, in seconds. */
function last(tenants: readonly Created[]): number {
  return Math.max(...tenants.map(({ usableMs }) => usableMs)) / 1000;
}

function timeTable(title: string, batches: readonly Batch[], notes: string[] = []): Table {
  const row = (name: string, field: keyof Created): Cell[] => {
    const { p50, p90, p99, max } = distribution(seconds(batches, field));
    return [name, p50, p90, p99, max];
  };
  return {
    title,
    columns: ['from the request, s', 'p50', 'p90', 'p99', 'longest'],
    rows: [
      row('until `get namespaces` answers', 'usableMs'),
      row('until the syncer serves it', 'joinedMs'),
      row('from the deletion until it is gone', 'removedMs'),
    ],
    notes,
  };
}

function figures(alone: readonly Batch[], together: readonly Batch[]): Figure[] {
  return [
    ...figure('usable, alone', 's', seconds(alone, 'usableMs')),
    ...figure('served, alone', 's', seconds(alone, 'joinedMs')),
    ...figure('removed, alone', 's', seconds(alone, 'removedMs')),
    ...figure(
      'last usable, at once',
      's',
      together.map(({ tenants }) => last(tenants)),
    ),
  ];
}
