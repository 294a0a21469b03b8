import { randomUUID } from 'node:crypto';
import { isPaused } from '../../../api/tenant-state.ts';
import type { ControlPlanePlacement, Move, VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { ApiError, ConnectionError, findCondition } from '../../../kube/index.ts';
import { EtcdError } from '../../etcd/errors.ts';
import { copyTooSlow, datastoreNotKept, explain, moveOutpaced, OperatorError } from '../errors.ts';
import { recordHeld, recordProgress, recordWake } from '../jobs.ts';
import { driverAt, isReaddressed, placementsOf, placementText, servicesAt, wantedMove } from '../moves.ts';
import type { Services } from '../services.ts';
import { hasPhaseAsleep } from '../sleep.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { checkDatastoreQuota, ownKeys, sharedKeys, type TenantKeys } from '../tenant-keys.ts';
import { withDatastore } from '../version-choice.ts';
import { locateOnMachine } from './address.ts';
import { ensureControlPlane, ensureOnlyDatastore, isNotStarting, stopWriters } from './control-plane.ts';
import { policy } from './policy.ts';

/*
 * A move to another driver or datastore. The new place is prepared while the old one serves; then nothing serves, what
 * the tenant has is copied, and the control plane is started at the new place by the steps that start any. What the old
 * place has is left as it is until the new one is ready: until then the way back is to start it there again.
 * `status.move` says how far it is, and a manager that takes over goes on from there.
 */

export const beginMove: Step = {
  name: 'begin-move',
  doing: 'Beginning to move it',
  async run(tenant, services) {
    if (tenant.vc.status?.move !== undefined) return;
    const wanted = wantedMove(tenant.vc, services);
    if (wanted === undefined || wanted.refusal !== undefined) return;
    const { from, to } = wanted;
    const startedAt = new Date(services.clock.now()).toISOString();
    tenant.status.set({ move: { stage: 'preparing', from, to, startedAt } });
    await tenant.status.flush();
  },
};

/** Where the etcd of its own is that it goes to or comes from. Before its certificates are issued. */
export const locateOtherDatastore: Step = {
  name: 'other-datastore',
  doing: 'Looking for the other place',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    const { move } = tenant.vc.status ?? {};
    tenant.other = undefined;
    if (move === undefined) return;
    const { there, here } = placementsOf(move);
    // Before anything is stopped for a place where nothing could be started.
    if (move.stage === 'preparing' || move.stage === 'copying') driverAt(there, services);
    // What did not become ready there may go on trying, and has the ports of the old one.
    if (move.stage === 'returning' && there.driver !== here.driver && isPaused(tenant.vc))
      await driverAt(there, services).stop(tenant.id, { signal: tenant.signal });
    // Later it is needed no more: it ends by itself.
    if (move.stage === 'settling' || move.stage === 'returning') return;
    if (there.datastore !== 'own') return;
    const isSameDriver = there.driver === here.driver;
    if (!isSameDriver && move.stage === 'starting') return;
    const choice = choiceAt(tenant, services, there);
    const at = servicesAt(there.driver, services);
    const location = await at.driver.locate?.(tenant.id, { signal: tenant.signal, withDatastore: true });
    const datastore = location?.datastore ?? locateOnMachine(tenant, at, choice);
    tenant.other = { choice, location, datastore, isSameDriver };
    await tenant.status.flush();
  },
};

function choiceAt(tenant: Tenant, services: Services, placement: ControlPlanePlacement) {
  const { version } = tenant.required(tenant.choice, 'template');
  return withDatastore(tenant.vc, version, placement.datastore, services, placement.template);
}

/** Revisions that may be left to catch up during the pause: so few take less than a second. */
const closeEnough = 1_000;
const roundMs = 15_000;
/** A round that ends no nearer than this to the old etcd than any before it has gained nothing. */
const leastGain = 1_000;
/** Rounds in a row that have gained nothing, after which the old etcd is written to too fast to be caught up with. */
const maxRoundsWithoutGain = 8;

/** While the old place serves: all that can be done before the pause. */
export const prepareMove: Step = {
  name: 'prepare-move',
  doing: 'Preparing the other place',
  async run(tenant, services) {
    const { move } = tenant.vc.status ?? {};
    if (move?.stage !== 'preparing') return;
    const { from, to } = move;
    const { signal } = tenant;
    if (tenant.other?.datastore.isKept === false && to.datastore === 'own') throw datastoreNotKept();
    // Of one that is asleep it does not run, and is read below.
    if (from.datastore === 'own' && hasPhaseAsleep(tenant.vc)) await ensureOnlyDatastore(tenant, services);
    if (from.datastore === 'own' && to.datastore === 'shared') await checkSize(tenant, services, move);
    if (to.datastore === 'shared') await services.datastore.ensureTenant(tenant.id, { signal });
    else await startOther(tenant, services);
    if (from.driver !== to.driver) await provideElsewhere(tenant, services, to);
    if (from.datastore !== to.datastore && !(await catchUp(tenant, services, move))) return;
    const pausedAt = new Date(services.clock.now()).toISOString();
    if (hasPhaseAsleep(tenant.vc)) recordWake(tenant, services);
    tenant.status.set({ phase: 'Moving', move: { ...move, stage: 'copying', pausedAt } });
    const message = `It moves from ${placementText(from)} to ${placementText(to)}: connections wait.`;
    tenant.status.condition('Ready', 'False', 'Moving', message);
    // The syncer leaves, and the gateway holds new connections, when they see this.
    await tenant.status.flush();
  },
};

/** Throws `DatastoreQuotaExceeded`. Once for a move: reading all of it in each round would take longer than the round. */
async function checkSize(tenant: Tenant, services: Services, move: Move): Promise<void> {
  if (move.catchUp !== undefined) return;
  // Otherwise it is decided after the move: the quota may have been raised for it.
  await policy.run(tenant, services);
  try {
    await withBothKeys(tenant, services, move, async ({ from }) => {
      const { entries } = await from.view({ signal: tenant.signal });
      await checkDatastoreQuota(tenant, entries);
    });
  } catch (error) {
    // Read too slowly. What is copied is counted too.
    if (!(error instanceof EtcdError) || error.code !== 'Compacted') throw error;
  }
}

/** The etcd that it goes to, beside all that runs. */
async function startOther(tenant: Tenant, services: Services): Promise<void> {
  const { other } = tenant;
  if (other === undefined) return;
  if (!other.isSameDriver) return ensureOnlyDatastore(tenant, otherServices(tenant, services), true);
  // One that is asleep stays so.
  if (hasPhaseAsleep(tenant.vc) || isPaused(tenant.vc)) return ensureOnlyDatastore(tenant, services);
  await ensureControlPlane(tenant, services);
  await tenant.components;
}

function otherServices({ vc }: Tenant, services: Services): Services {
  const { move } = vc.status ?? {};
  return move === undefined ? services : servicesAt(placementsOf(move).there.driver, services);
}

/** Programs, which may have to be built or fetched, and the address, if the driver makes one. */
async function provideElsewhere(
  tenant: Tenant,
  services: Services,
  placement: ControlPlanePlacement,
): Promise<void> {
  const wanted = driverAt(placement, services);
  await wanted.locate?.(tenant.id, { signal: tenant.signal, withDatastore: placement.datastore === 'own' });
  const { choice } = tenant;
  const components = choice?.template.spec.components ?? [];
  await wanted.provide?.(
    components.map(({ binary, version }) => ({ name: binary, version: version ?? choice?.version ?? '' })),
    { signal: tenant.signal },
  );
}

/**
 * Whether the etcd that it goes to counts about as high as the one that it comes from, which is written to meanwhile: clients
 * ask for changes since what they have read there. Of a large etcd that takes many rounds; each has to gain something.
 * Throws `MoveOutpaced`.
 */
async function catchUp(tenant: Tenant, services: Services, move: Move): Promise<boolean> {
  const { signal } = tenant;
  const { clock } = services;
  return withBothKeys(tenant, services, move, async ({ from, to }) => {
    const endMs = clock.monotonic() + roundMs;
    const isEnough = (): boolean => clock.monotonic() >= endMs;
    for (let target = (await from.view({ signal })).revision; ; ) {
      const has = await to.raise(target, { signal, isEnough });
      const { revision } = await from.view({ signal });
      const isOver = has < target || isEnough();
      if (has >= target && revision - has <= closeEnough) return true;
      target = revision;
      if (!isOver) continue;
      noteRound(tenant, move, target - has);
      const progress = `the new datastore counts to the revision of the old one: ${has} of ${target}`;
      tenant.unfinished = { progress, againAfterMs: 1_000 };
      return false;
    }
  });
}

/** `behind`: revisions that are left at the end of a round. Throws `MoveOutpaced`. */
function noteRound(tenant: Tenant, { catchUp: before }: Move, behind: number): void {
  const hasGained = before === undefined || behind <= before.behind - leastGain;
  const now = hasGained ? { behind, idleRounds: 0 } : { ...before, idleRounds: before.idleRounds + 1 };
  if (now.idleRounds >= maxRoundsWithoutGain)
    throw moveOutpaced(behind, `in ${now.idleRounds} rounds of ${roundMs / 1_000} s it came no nearer`);
  tenant.status.set(({ move, ...status }) => ({
    ...status,
    ...(move && { move: { ...move, catchUp: now } }),
  }));
}

async function withBothKeys<T>(
  tenant: Tenant,
  services: Services,
  { from, to }: Move,
  work: (keys: { from: TenantKeys; to: TenantKeys }) => Promise<T>,
): Promise<T> {
  const keysOf = (placement: ControlPlanePlacement): TenantKeys => {
    if (placement.datastore === 'shared') return sharedKeys(tenant, services);
    const isHere = tenant.ownDatastore !== undefined;
    const datastore = tenant.required(tenant.ownDatastore ?? tenant.other?.datastore, 'etcd of its own');
    const choice = isHere ? tenant.choice : tenant.other?.choice;
    return ownKeys(tenant, services, datastore, tenant.required(choice, 'template'));
  };
  const both = { from: keysOf(from), to: keysOf(to) };
  try {
    return await work(both);
  } finally {
    await Promise.all([both.from.close(), both.to.close()]);
  }
}

/** Nothing writes from here on: copies what the tenant has. */
export const copyDatastore: Step = {
  name: 'copy',
  doing: 'Copying what it has to the other place',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    const { move } = tenant.vc.status ?? {};
    if (move?.stage !== 'copying') return;
    const { from, to } = move;
    await tenant.components;
    if (tenant.other?.isSameDriver === true) await ensureOnlyDatastore(tenant, services);
    else await stopWriters(tenant, services);
    if (from.datastore !== to.datastore) {
      await startOther(tenant, services);
      await copy(tenant, services, move);
    }
    recordPlacement(tenant, services, to, { ...move, stage: 'starting' });
    await tenant.status.flush();
    await tenant.reconnect();
  },
};

/** It is there from now on. A port of this machine is the API server's no more when it gets an address of another kind. */
function recordPlacement(
  tenant: Tenant,
  services: Services,
  placement: ControlPlanePlacement,
  move: Move,
): void {
  const { driver, datastore, template } = placement;
  const isMoved = tenant.vc.status?.driver !== driver && isReaddressed(move, services);
  // The rest of the address stays until the step `address` writes the new one: the gateway goes by it.
  tenant.status.set(({ advertisedPort, ...status }) => ({
    ...{ ...status, driver, datastore, template, move },
    ...(isMoved || advertisedPort === undefined ? {} : { advertisedPort }),
  }));
}

/** Throws `MoveOutpaced`, `CopyTooSlow`, `DatastoreQuotaExceeded`. */
async function copy(tenant: Tenant, services: Services, move: Move): Promise<void> {
  const { signal } = tenant;
  const { clock } = services;
  await withBothKeys(tenant, services, move, async ({ from, to }) => {
    // What was written since it was prepared.
    const { revision: target } = await from.view({ signal });
    const endMs = clock.monotonic() + patienceMs;
    const has = await to.raise(target, { signal, isEnough: () => clock.monotonic() >= endMs });
    if (has < target)
      throw moveOutpaced(target - has, `${patienceMs / 1_000} s were not enough with its API server stopped`);
    const { entries } = await from.view({ signal });
    let written = 0;
    try {
      await to.replace(entries, {
        ...{ signal, attempt: randomUUID() },
        onProgress: (count) => {
          written = count;
          recordProgress(tenant, `${count} entries are copied`);
        },
      });
    } catch (error) {
      if (!(error instanceof EtcdError) || error.code !== 'Compacted') throw error;
      throw copyTooSlow(written, error);
    }
  });
}

/** The control plane runs: nothing of the place where it is not is left. Says how long no client was served. */
export const finishMove: Step = {
  name: 'moved',
  doing: 'Removing what is left at the other place',
  async run(tenant, services) {
    const { move } = tenant.vc.status ?? {};
    if (move === undefined) return reportPlacement(tenant, services);
    if (move.stage !== 'settling' && move.stage !== 'returning') return;
    await tenant.components;
    const { here, there } = placementsOf(move);
    await removePlacement(tenant, services, there, here);
    const { from, to, pausedMs } = move;
    const at = new Date(services.clock.now()).toISOString();
    const paused = pausedMs === undefined ? {} : { pausedMs };
    const { heldMove, history: [last] = [] } = tenant.vc.status?.jobs ?? {};
    const isBack = move.stage === 'returning';
    // Of this move, not of an earlier one: times in UTC sort as text.
    const isCancelled =
      last?.kind === 'move' && last.result === 'Cancelled' && last.finishedAt >= move.startedAt;
    const cancelled = isCancelled ? last.message : undefined;
    const why = isBack ? { why: (heldMove?.why ?? cancelled ?? 'It was cancelled.').slice(0, 1_024) } : {};
    tenant.status.set(({ move: _, datastorePorts, ...status }) => ({
      ...(isBack ? status : withoutHold(status)),
      ...(here.datastore === 'own' && datastorePorts && { datastorePorts }),
      moved: { at, from, to, ...paused, ...why },
    }));
    // What else the spec asks for has waited for this, and no event tells of it again.
    tenant.lookAgainMs = 0;
    if (isBack) {
      await tenant.status.flush();
      return reportPlacement(tenant, services);
    }
    const pause = `paused for ${seconds(pausedMs ?? 0)} s`;
    tenant.jobMessage = pause;
    const message = `It was moved from ${placementText(from)} to ${placementText(to)}: ${pause}.`;
    tenant.status.condition('Placed', 'True', 'Moved', message);
    services.logger.info({ virtualCluster: tenant.key, pausedMs }, message);
  },
};

/** An earlier move that failed holds nothing back after one that has not. */
function withoutHold({
  jobs: { heldMove: _, ...jobs } = {},
  ...status
}: VirtualClusterStatus): VirtualClusterStatus {
  return { ...status, jobs };
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}

/** Of one that is asleep, which no refused move wakes. */
export const placement: Step = {
  name: 'placement',
  doing: 'Comparing where it is with where the spec has it go',
  async run(tenant, services) {
    reportPlacement(tenant, services);
  },
};

function reportPlacement(tenant: Tenant, services: Services): void {
  const refusal = wantedMove(tenant.vc, services)?.refusal;
  if (refusal === undefined) {
    const said = findCondition(tenant.vc.status?.conditions, 'Placed');
    if (said?.status === 'False') tenant.status.dropCondition('Placed');
    return;
  }
  tenant.notes.push(`It stays where it is: ${refusal.message}`);
  tenant.status.condition('Placed', 'False', refusal.reason, refusal.message);
}

async function removePlacement(
  tenant: Tenant,
  services: Services,
  gone: ControlPlanePlacement,
  stays: ControlPlanePlacement,
): Promise<void> {
  const { id, signal } = tenant;
  const driver = driverAt(gone, services);
  if (gone.driver !== stays.driver) await driver.remove(id, { signal });
  else if (gone.datastore === 'own' && stays.datastore === 'shared') {
    const choice = choiceAt(tenant, services, gone);
    const components = choice.template.spec.components.filter(({ data }) => data).map(({ name }) => name);
    await driver.stop(id, { signal, components, forget: true });
  }
  if (gone.datastore === 'shared' && stays.datastore === 'own')
    await services.datastore.removeTenant(id, { signal });
}

/** The gateway holds connections for a minute. */
const patienceMs = 60_000;

/**
 * Has the control plane go on where it was, when it cannot go on at the new place. Nothing was changed there, and until
 * its API server is ready at the new place nothing has written there.
 */
export async function rollBackMove(tenant: Tenant, services: Services, error: unknown): Promise<void> {
  const { move } = tenant.vc.status ?? {};
  if (move === undefined || (move.stage !== 'preparing' && !isPaused(tenant.vc))) return;
  if (move.stage === 'returning' || !isOver(error, move, services)) return;
  if (move.stage === 'starting' && (await mayHaveServed(tenant, services, move, error))) return;
  recordPlacement(tenant, services, move.from, { ...move, stage: 'returning' });
  recordHeld(tenant, services, 'move', explain(error, tenant).message);
}

/**
 * Whether an API server runs at the new place, and nothing says that it does not become ready: clients that know its
 * address may have written there already, before the status says that it serves.
 */
async function mayHaveServed(
  { id }: Tenant,
  { drivers }: Services,
  { from, to }: Move,
  error: unknown,
): Promise<boolean> {
  if (isNotStarting(error)) return false;
  // Only its pods were led there, and what they have written is in the same datastore.
  const isSameData = from.datastore === 'shared' && to.datastore === 'shared';
  if (isSameData && error instanceof OperatorError && error.code === 'AddressUnreachable') return false;
  try {
    const seen = await drivers.get(to.driver)?.observe(id);
    return (
      seen?.components.some(({ name, state }) => name === 'kube-apiserver' && state === 'running') ?? true
    );
  } catch {
    // What cannot be told counts as yes: the next attempt goes on there.
    return true;
  }
}

/** These say something about the manager that tries: another one goes on. */
const ofManager: readonly OperatorError['code'][] = ['NoLongerLeading', 'ObjectReplaced', 'DriverChanged'];

/** Whether trying again there is of no use, or has been tried for long enough. */
function isOver(error: unknown, { stage, pausedAt = '' }: Move, { clock }: Services): boolean {
  if (error instanceof OperatorError && ofManager.includes(error.code)) return false;
  const isTransient =
    error instanceof ConnectionError ||
    ((error instanceof ApiError || error instanceof EtcdError) && error.retryable);
  if (!isTransient) return true;
  return stage !== 'preparing' && clock.now() - Date.parse(pausedAt) > patienceMs;
}
