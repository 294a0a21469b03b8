import { renderCell } from '../measure/markdown.ts';
import { type Distribution, distribution } from '../measure/statistics.ts';
import { totalCpuSeconds, UsageMeter } from '../measure/usage.ts';
import type { Scenario } from '../scenario.ts';

/** Milliseconds from the request for a tenant. */
interface Created {
  usableMs: number;
  joinedMs: number;
  removedMs: number;
  cpuSeconds?: number;
}

/** Tenants, one at a time: how long from the request until its admin gets an answer. */
export const create: Scenario = {
  name: 'create',
  summary: 'request for a tenant until its kubeconfig works, one at a time',
  needsTenants: true,

  async run(lab, options) {
    const rounds: Created[] = [];
    for (let index = 0; index < options.creates; index++) {
      await lab.settle();
      const created = await createOne(`create-${index}`);
      rounds.push(created);
      lab.tell(
        `create, ${index + 1} of ${options.creates}: usable after ${renderCell(created.usableMs / 1000)} s, removed in ${renderCell(created.removedMs / 1000)} s`,
      );
    }

    async function createOne(name: string): Promise<Created> {
      const meter = new UsageMeter(() => lab.processes());
      await meter.start();
      const from = performance.now();
      await lab.request(name);
      await lab.tenants.usable(name, lab.signal);
      const usableMs = performance.now() - from;
      await lab.tenants.joined(name, lab.signal);
      const joinedMs = performance.now() - from;
      const cpuSeconds = totalCpuSeconds(await meter.stop());
      const removeFrom = performance.now();
      await lab.removeTenant(name);
      const removedMs = performance.now() - removeFrom;
      return { usableMs, joinedMs, removedMs, ...(cpuSeconds === undefined ? {} : { cpuSeconds }) };
    }

    const seconds = (figure: 'usableMs' | 'joinedMs' | 'removedMs'): Distribution =>
      distribution(rounds.map((round) => round[figure] / 1000));
    const summary = {
      usableSeconds: seconds('usableMs'),
      joinedSeconds: seconds('joinedMs'),
      removedSeconds: seconds('removedMs'),
      cpuSeconds: distribution(rounds.flatMap(({ cpuSeconds }) => cpuSeconds ?? [])),
    };
    const row = (name: string, { p50, p90, max }: Distribution) => [name, p50, p90, max];
    return {
      settings: { creates: options.creates },
      rounds,
      summary,
      tables: [
        {
          title: `create: ${options.creates} tenants, one at a time`,
          columns: ['from the request, s', 'p50', 'p90', 'longest'],
          rows: [
            row('until `get namespaces` answers', summary.usableSeconds),
            row('until the syncer serves it', summary.joinedSeconds),
            row('from the deletion until it is gone', summary.removedSeconds),
            row('CPU until the syncer serves it', summary.cpuSeconds),
          ],
        },
      ],
    };
  },
};
