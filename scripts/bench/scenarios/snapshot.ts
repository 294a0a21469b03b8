import { randomBytes } from 'node:crypto';
import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { findCondition, type KubeClient, resources, systemClock, withClient } from '../../../kube/index.ts';
import { createOrFind } from '../busy-server.ts';
import type { Target } from '../generator/protocol.ts';
import type { Lab } from '../lab.ts';
import { groupTable, renderCell } from '../markdown.ts';
import { residentBytes } from '../measure.ts';
import { type Figure, figure, type Scenario } from '../scenario.ts';
import { median } from '../statistics.ts';

const tenant = 'kept';
const bytesPerMegabyte = 1_000_000;
/** Base64 of random bytes: as large as real data, and no easier to compress. */
const randomBytesPerObject = 768;
const pollMs = 50;

interface Round {
  objects: number;
  snapshotSeconds: number;
  restoreSeconds: number;
  /** What is in the file. */
  entries: number;
  fileBytes: number;
  /** Resident memory of the manager, in bytes: before, and at most meanwhile. */
  manager: { before?: number; snapshot?: number; restore?: number };
}

/** A tenant with many objects is kept in a file, and put back to it. */
export const snapshot: Scenario = {
  name: 'snapshot',
  summary: 'a snapshot of a tenant with --objects ConfigMaps, and a restore in place, --repeats times',
  needsTenants: true,
  onlyWhenNamed: true,

  async run(lab, { objects, repeats, inFlight }) {
    const target = await lab.createTenant(tenant);
    try {
      const rounds: Round[] = [];
      let present = 0;
      for (const wanted of objects) {
        lab.log(`snapshot: creating ${wanted - present} ConfigMaps`);
        await fill(lab, target, { from: present, to: wanted, inFlight });
        present = wanted;
        for (let repeat = 0; repeat < repeats; repeat++) rounds.push(await measure(lab, target, wanted));
      }
      const byObjects = Map.groupBy(rounds, (round) => round.objects);
      return {
        settings: { objects, repeats },
        rounds,
        figures: [...byObjects].flatMap(([count, some]) => figuresOf(count, some)),
        tables: [
          groupTable<Round>(`snapshot: ${repeats} times each`, ['ConfigMaps of 1 KB', byObjects], {
            'snapshot, s': (some) => median(some.map((round) => round.snapshotSeconds)),
            'restore, s': (some) => median(some.map((round) => round.restoreSeconds)),
            'file, MB': (some) => median(some.map(({ fileBytes }) => fileBytes / bytesPerMegabyte)),
            'manager before, MB': (some) => managerMegabytes(some, 'before'),
            'at most, snapshot': (some) => managerMegabytes(some, 'snapshot'),
            'at most, restore': (some) => managerMegabytes(some, 'restore'),
          }),
        ],
        plots: [],
      };
    } finally {
      if (!lab.signal.aborted) await lab.removeTenant(tenant);
    }
  },
};

function figuresOf(objects: number, rounds: readonly Round[]): Figure[] {
  const of = (name: string, unit: string, value: (round: Round) => number | undefined): Figure[] =>
    figure(`${name} of ${objects} objects`, unit, rounds.map(value));
  const megabytes = (bytes: number | undefined) => bytes && bytes / bytesPerMegabyte;
  return [
    ...of('snapshot', 's', ({ snapshotSeconds }) => snapshotSeconds),
    ...of('restore', 's', ({ restoreSeconds }) => restoreSeconds),
    ...of('file', 'MB', ({ fileBytes }) => megabytes(fileBytes)),
    ...of('manager, snapshot', 'MB', ({ manager }) => megabytes(manager.snapshot)),
    ...of('manager, restore', 'MB', ({ manager }) => megabytes(manager.restore)),
  ];
}

function managerMegabytes(rounds: readonly Round[], when: keyof Round['manager']): number {
  return median(rounds.flatMap(({ manager }) => manager[when] ?? [])) / bytesPerMegabyte;
}

async function fill(
  { signal }: Lab,
  target: Target,
  { from, to, inFlight }: { from: number; to: number; inFlight: number },
): Promise<void> {
  await withTenant(target, async (client) => {
    let next = from;
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        while (next < to) {
          const metadata = { name: `object-${next++}`, namespace: target.namespace };
          const data = { content: randomBytes(randomBytesPerObject).toString('base64') };
          await createOrFind(client, resources.configMaps, { metadata, data }, signal);
        }
      }),
    );
  });
}

async function measure(lab: Lab, target: Target, objects: number): Promise<Round> {
  const { tenants, signal } = lab;
  await lab.waitUntilQuiet();
  const manager = (await lab.processes()).find(({ group }) => group === 'manager')?.pid;
  const before = manager && (await residentBytes(manager));
  const taken = await withPeak(manager, () => takeSnapshot(lab));
  // Which the restore has to take away.
  const later = { name: 'later', namespace: target.namespace };
  await withTenant(target, (client) =>
    createOrFind(client, resources.configMaps, { metadata: later }, signal),
  );
  const request = new Date().toISOString();
  const annotations = {
    [annotationKeys.restoreFrom]: taken.result.name,
    [annotationKeys.restore]: request,
  };
  const put = await withPeak(manager, () =>
    tenants.change(tenant, { metadata: { annotations } }, (vc) => isPutBack(vc, request), signal),
  );
  const has = await countConfigMaps(lab, target);
  // One is in every namespace.
  if (has !== objects + 1) throw new Error(`${has} ConfigMaps are there after the restore of ${objects}`);
  const { entries, bytes } = taken.result;
  lab.log(
    `snapshot: ${objects} objects, ${renderCell(taken.seconds)} s, restored in ${renderCell(put.seconds)} s`,
  );
  return {
    objects,
    snapshotSeconds: taken.seconds,
    restoreSeconds: put.seconds,
    entries,
    fileBytes: bytes,
    manager: {
      ...(before && { before }),
      ...(taken.maxBytes && { snapshot: taken.maxBytes }),
      ...(put.maxBytes && { restore: put.maxBytes }),
    },
  };
}

/** As `vc-manager snapshot` asks for it. */
async function takeSnapshot({ tenants, signal }: Lab) {
  const known = new Set(tenants.get(tenant)?.status?.snapshots?.kept?.map(({ name }) => name));
  const request = new Date().toISOString();
  const annotations = { [annotationKeys.snapshot]: request };
  await tenants.change(
    tenant,
    { metadata: { annotations } },
    ({ status }) => status?.snapshots?.taken === request,
    signal,
  );
  const { snapshots, conditions } = tenants.get(tenant)?.status ?? {};
  const kept = snapshots?.kept?.find(({ name, reason }) => reason === 'Requested' && !known.has(name));
  if (kept !== undefined) return kept;
  const why = findCondition(conditions, 'SnapshotTaken')?.message;
  throw new Error(`there is no snapshot: ${why ?? 'no reason given'}`);
}

/** As `vc-manager restore` waits for it. */
function isPutBack({ status }: VirtualCluster, request: string): boolean {
  if (status?.restored?.request !== request) return false;
  if (status.restored.refused !== undefined)
    throw new Error(`the snapshot is not put back: ${status.restored.refused}`);
  return status.phase === 'Ready';
}

async function countConfigMaps({ signal }: Lab, target: Target): Promise<number> {
  return withTenant(target, async (client) => {
    const path = `/api/v1/namespaces/${target.namespace}/configmaps?limit=1`;
    const { items = [], metadata } = (await client.raw('GET', path, { signal })) as {
      items?: unknown[];
      metadata: { remainingItemCount?: number };
    };
    return items.length + (metadata.remainingItemCount ?? 0);
  });
}

function withTenant<T>(target: Target, work: (client: KubeClient) => Promise<T>): Promise<T> {
  return withClient({ ...target.connection, userAgent: 'skerry-bench' }, work);
}

/** How long the work takes, and how much memory a process has at most meanwhile. */
async function withPeak<T>(
  pid: number | undefined,
  work: () => Promise<T>,
): Promise<{ result: T; seconds: number; maxBytes: number }> {
  const working = new AbortController();
  let maxBytes = 0;
  const watched = (async () => {
    while (pid !== undefined && !working.signal.aborted) {
      maxBytes = Math.max(maxBytes, (await residentBytes(pid)) ?? 0);
      await systemClock.sleep(pollMs, working.signal).catch(() => undefined);
    }
  })();
  const from = performance.now();
  try {
    const result = await work();
    return { result, seconds: (performance.now() - from) / 1000, maxBytes };
  } finally {
    working.abort();
    await watched;
  }
}
