import { fetchingReason, fetchingText } from '../../../api/conditions.ts';
import { labelKeys } from '../../../api/labels.ts';
import { isPaused, weightOf } from '../../../api/tenant-state.ts';
import { ConnectionError, findCondition, resources } from '../../../kube/index.ts';
import { hostInUrl } from '../../../program/addresses.ts';
import { BinaryError } from '../../binaries/index.ts';
import type { ControlPlanePlan } from '../../control-plane/plan.ts';
import { renderPlan } from '../../control-plane/render-plan.ts';
import type { EnsureOptions, SurgeUpdate } from '../../drivers/driver.ts';
import { DriverError } from '../../drivers/errors.ts';
import { addressUnreachable, explain, portTaken } from '../errors.ts';
import { recordHeld, recordProgress, recordReplacing } from '../jobs.ts';
import { isReaddressed } from '../moves.ts';
import type { Services } from '../services.ts';
import { hasPhaseAsleep } from '../sleep.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { allocatePort, hasOwnDatastore, locateOnMachine, recordAddress } from './address.ts';
import { publishAddress, waitForObject } from './bootstrap.ts';
import { credentials } from './certificates.ts';
import { writeStopOf } from './datastore-usage.ts';

/** A user and a prefix for this tenant in the shared datastore, unless the template has an etcd of its own. */
export const datastore: Step = {
  name: 'datastore',
  doing: 'Preparing a place in the datastore',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    if (hasOwnDatastore(tenant.required(tenant.choice, 'template'))) {
      tenant.status.set({ datastore: 'own' });
      tenant.status.condition('DatastoreReady', 'True', 'Own', 'It has an etcd of its own.');
      return;
    }
    tenant.status.set({ datastore: 'shared' });
    await services.datastore.ensureTenant(tenant.id, { signal: tenant.signal });
    tenant.status.condition('DatastoreReady', 'True', 'Granted', 'It has a prefix and a user of its own.');
  },
};

const apiServerName = 'kube-apiserver';

/** Makes the components run as planned, and waits until the API server is ready. */
export const controlPlane: Step = {
  name: 'control-plane',
  doing: 'Starting the control plane',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const choice = tenant.required(tenant.choice, 'template');
    const { change } = tenant;
    const wasReplacing = tenant.vc.status?.jobs?.current?.replacing === true;
    const built = { version: choice.version, template: choice.template.metadata.name };
    // From here on the datastore holds the service range.
    if (change === undefined) tenant.status.set(built);
    else reportReplacing(tenant, services, change);
    const { confinement } = services.driver;
    tenant.status.set(({ confinement: _, ...status }) => ({
      ...status,
      ...(confinement && { confinement: [...confinement] }),
    }));
    if (!hasPhaseAsleep(tenant.vc) && !isPaused(tenant.vc)) await reportOutage(tenant, services);
    await tenant.status.flush();
    try {
      await replaced(tenant, wasReplacing, (begin) => ensureControlPlane(tenant, services, begin));
    } catch (error) {
      // Until its API server is ready the new version is not the one of the datastore.
      if (change !== undefined && (isNotStarting(error) || isNoSuchVersion(error)))
        recordHeld(tenant, services, 'version-change', explain(error, tenant).message);
      throw error;
    }
    if (change !== undefined) {
      // From here on the datastore holds what the new version writes: there is no way back.
      tenant.status.set(built);
      await tenant.status.flush();
    }
    await awaitReach(tenant, services);
    if (recordServing(tenant, services)) await tenant.status.flush();
    tenant.status.condition('APIServerReady', 'True', 'Running', `Kubernetes ${choice.version} is ready.`);
  },
};

const reachMs = 20_000;

/**
 * Of one that comes to an address of another kind: throws `AddressUnreachable` when that leads nowhere from here. Gateway and
 * syncer are led there only afterwards.
 */
async function awaitReach(tenant: Tenant, services: Services): Promise<void> {
  const { move, endpoint = '' } = tenant.vc.status ?? {};
  if (move?.stage !== 'starting' || !isReaddressed(move, services)) return;
  const timeoutMs = Math.min(reachMs, services.settings.bootstrapTimeoutMs);
  try {
    await waitForObject(tenant, timeoutMs, resources.namespaces, { name: 'default' }, { mayComeUp: true });
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    throw addressUnreachable(endpoint, error, tenant.location !== undefined);
  }
}

/** Its API server serves again: at the new place, from which there is no way back, or at the old one. */
function recordServing(tenant: Tenant, { clock }: Services): boolean {
  const { move } = tenant.vc.status ?? {};
  if (move?.pausedAt === undefined || move.pausedMs !== undefined) return false;
  const pausedMs = Math.max(0, clock.now() - Date.parse(move.pausedAt));
  const stage = move.stage === 'starting' ? 'settling' : move.stage;
  tenant.status.set({ move: { ...move, stage, pausedMs } });
  return true;
}

/** Waits until the other components are ready. */
export const controllers: Step = {
  name: 'controllers',
  doing: 'Waiting for the controllers',
  condition: 'ControllerManagerReady',
  async run(tenant, services) {
    await tenant.components;
    if (findCondition(tenant.vc.status?.conditions, 'Ready')?.status !== 'True') {
      // Made by the controllers only: they work.
      const ref = { namespace: 'kube-system', name: 'default' };
      await waitForObject(tenant, services.settings.bootstrapTimeoutMs, resources.serviceAccounts, ref);
    }
    tenant.status.condition('ControllerManagerReady', 'True', 'Running', 'The controllers run.');
  },
};

const notStarting: readonly DriverError['code'][] = [
  'KeepsExiting',
  'NotReady',
  'InsufficientMemory',
  'CannotStart',
  'ImageMissing',
];

/** Whether what is to run is the reason, and not that it cannot be looked after. */
export function isNotStarting(error: unknown): error is DriverError {
  return error instanceof DriverError && notStarting.includes(error.code);
}

export function isNoSuchVersion(error: unknown): boolean {
  return error instanceof BinaryError && error.code === 'NoSuchVersion';
}

function reportReplacing(
  tenant: Tenant,
  { settings }: Services,
  { from, to }: { from: string; to: string },
): void {
  recordReplacing(tenant, true);
  // The earlier one serves on.
  if (isReplacedBySurge(tenant, settings)) return;
  const message = `Kubernetes ${from} is being replaced by ${to}.`;
  for (const type of ['APIServerReady', 'Ready'] as const)
    tenant.status.condition(type, 'False', 'Upgrading', message);
}

/** A failure before anything is stopped leaves the old version running: then the change can still be cancelled. */
async function replaced(
  tenant: Tenant,
  wasReplacing: boolean,
  work: (begin: () => void) => Promise<void>,
): Promise<void> {
  let hasBegun = false;
  try {
    await work(() => {
      hasBegun = true;
    });
  } catch (error) {
    // Programs are fetched before anything is stopped.
    const isUntouched = !hasBegun || error instanceof BinaryError;
    if (isUntouched && !wasReplacing) recordReplacing(tenant, false);
    throw error;
  }
}

/** Makes the components run as planned; resolves when the API server is ready, `tenant.components` when all are. */
export async function ensureControlPlane(
  tenant: Tenant,
  services: Services,
  begin: () => void = () => {},
): Promise<void> {
  const refused = new Set<number>();
  for (;;) {
    const port = tenant.required(tenant.vc.status?.advertisedPort, 'port');
    const surge = surgeOf(tenant, services, refused);
    // The gateway holds its clients.
    const isWaking = hasPhaseAsleep(tenant.vc) && services.settings.gateway !== undefined;
    const isWell = findCondition(tenant.vc.status?.conditions, 'Ready')?.status === 'True';
    const report = new ProgressReport(tenant, isWell);
    // A reconcile of a control plane that is well reports progress only when it had something to fetch.
    let isTold = !isWell;
    try {
      const onProgress: EnsureOptions['onProgress'] = (message, reason) =>
        isTold ? report.tell(message, reason) : undefined;
      const onFetch = (message: string): void => {
        isTold = true;
        report.tell(`${fetchingText}: ${message}`, fetchingReason);
      };
      const wanted = await plan(tenant, services, port);
      begin();
      await tenant.untilReady(apiServerName, (options) =>
        services.driver.ensure(wanted, { ...options, onProgress, onFetch, surge, isWaking }),
      );
      forgetReplacement(tenant);
      return;
    } catch (error) {
      if (!(error instanceof DriverError) || error.code !== 'PortInUse') throw error;
      const { replacementPort, move } = tenant.vc.status ?? {};
      if (replacementPort !== undefined && error.fields.port === replacementPort) {
        refused.add(replacementPort);
        forgetReplacement(tenant);
        await tenant.status.flush();
        continue;
      }
      if (await isRelocated(tenant, services, error.fields.port)) continue;
      if (error.fields.port !== port) throw error;
      // Where it has just come to this machine, no client knows the port yet.
      const isNew = move !== undefined && isPaused(tenant.vc) && isReaddressed(move, services);
      if (tenant.wasReady && !isNew) throw portTaken(port, error);
      refused.add(port);
    } finally {
      await report.end();
    }
    recordAddress(tenant, services, allocatePort(tenant, services, refused));
    await tenant.status.flush();
  }
}

/** Whether an etcd of its own was to have this port of the machine, and gets another one: no client outside knows it. */
async function isRelocated(tenant: Tenant, services: Services, port: number | undefined): Promise<boolean> {
  const { other, ownDatastore } = tenant;
  if (port === undefined || tenant.vc.status?.datastorePorts?.includes(port) !== true) return false;
  const refused = new Set([port]);
  if (ownDatastore?.bindAddress !== undefined)
    tenant.ownDatastore = locateOnMachine(
      tenant,
      services,
      tenant.required(tenant.choice, 'template'),
      refused,
    );
  else if (other?.datastore.bindAddress !== undefined)
    tenant.other = { ...other, datastore: locateOnMachine(tenant, services, other.choice, refused) };
  else return false;
  await tenant.status.flush();
  return true;
}

/** Has the components run that keep its data, and no other: nothing writes. `isOther`: at the other place of a move. */
export async function ensureOnlyDatastore(
  tenant: Tenant,
  services: Services,
  isOther = false,
): Promise<void> {
  await tenant.status.flush();
  for (;;) {
    const port = tenant.vc.status?.advertisedPort ?? 0;
    const whole = isOther ? await otherPlan(tenant, services, port) : await plan(tenant, services, port);
    const components = whole?.components.filter(({ data }) => data === true) ?? [];
    try {
      if (whole !== undefined)
        await services.driver.ensure({ ...whole, components }, { signal: tenant.signal });
      return;
    } catch (error) {
      if (!(error instanceof DriverError) || error.code !== 'PortInUse') throw error;
      if (!(await isRelocated(tenant, services, error.fields.port))) throw error;
    }
  }
}

/** Stops whatever may write, so that what it has in the datastore can be replaced. */
export async function stopWriters(tenant: Tenant, services: Services): Promise<void> {
  if (tenant.ownDatastore === undefined) await services.driver.stop(tenant.id, { signal: tenant.signal });
  else await ensureOnlyDatastore(tenant, services);
}

/** Whether clients can be led to another API server: the gateway does it, or an address that the driver has made. */
function isReplacedBySurge(tenant: Tenant, settings: Services['settings']): boolean {
  return tenant.wasReady && (settings.gateway !== undefined || tenant.location !== undefined);
}

/**
 * How the API server is replaced without a pause. The port of the new one stands in the status before anything listens
 * there, and becomes the port when the new one is ready: a manager that is killed leaves to the next one what to do.
 */
function surgeOf(tenant: Tenant, services: Services, refused: ReadonlySet<number>): SurgeUpdate | undefined {
  if (!isReplacedBySurge(tenant, services.settings)) return undefined;
  const component = apiServerName;
  const port = tenant.required(tenant.vc.status?.advertisedPort, 'port');
  if (tenant.location !== undefined)
    return { component, plan: () => plan(tenant, services, port), handOver: async () => {} };
  return {
    component,
    plan: async () => {
      const { replacementPort } = tenant.vc.status ?? {};
      const next = replacementPort ?? allocatePort(tenant, services, new Set([...refused, port]));
      tenant.status.set({ replacementPort: next });
      await tenant.status.flush();
      return plan(tenant, services, next);
    },
    handOver: async () => {
      const next = tenant.required(tenant.vc.status?.replacementPort, 'port of the new API server');
      recordAddress(tenant, services, next);
      forgetReplacement(tenant);
      // The gateway sends new connections there.
      await tenant.status.flush();
      await tenant.reconnect();
      // Pods and the syncer follow while the earlier one still serves.
      await publishAddress(tenant);
      await credentials.run(tenant, services);
    },
  };
}

function forgetReplacement(tenant: Tenant): void {
  if (tenant.vc.status?.replacementPort !== undefined)
    tenant.status.set(({ replacementPort: _, ...rest }) => rest);
}

/** With the etcd of the other place, while it moves: that is needed until the move has come to its end. */
async function plan(tenant: Tenant, services: Services, port: number): Promise<ControlPlanePlan> {
  const rendered = await planAt(tenant, services, port, tenant);
  if (tenant.other?.isSameDriver !== true) return rendered;
  const other = await otherPlan(tenant, services, port);
  const kept = other?.components.filter(({ data }) => data === true) ?? [];
  return { ...rendered, components: [...rendered.components, ...kept] };
}

async function otherPlan(
  tenant: Tenant,
  services: Services,
  port: number,
): Promise<ControlPlanePlan | undefined> {
  const { other } = tenant;
  if (other === undefined) return undefined;
  const { choice, location, datastore } = other;
  return planAt(tenant, services, port, { choice, location, ownDatastore: datastore });
}

async function planAt(
  tenant: Tenant,
  services: Services,
  port: number,
  { choice, location, ownDatastore: own }: Pick<Tenant, 'choice' | 'location' | 'ownDatastore'>,
): Promise<ControlPlanePlan> {
  const { settings } = services;
  const { template, version } = tenant.required(choice, 'template');
  const { etcdCa, kubeletProxyCa } = await services.managerPki();
  const serviceCIDR = tenant.required(tenant.vc.status?.serviceCIDR, 'service slice');
  const { etcdCa: ownCa, ...pki } = tenant.required(tenant.pki, 'certificates');
  return renderPlan({
    id: tenant.id,
    template: template.spec,
    version,
    serviceCIDR,
    clusterDomain: tenant.vc.spec?.clusterDomain ?? 'cluster.local',
    ports: { ...own?.ports, 'kube-apiserver': location?.bindPort ?? port },
    bindAddress: location?.bindAddress ?? settings.bindAddress,
    dataBindAddress: own?.bindAddress,
    advertiseAddress: location?.host ?? settings.advertiseAddress,
    etcd: { endpoint: own === undefined ? settings.etcdEndpoint : urlOf(own) },
    replicas: settings.replicas,
    weight: weightOf(tenant.vc),
    ...(location && { apiServer: location }),
    network: {
      tenantUid: tenant.uid,
      serviceCIDR,
      ...(own === undefined && { datastore: settings.etcdEndpoint }),
    },
    // With the other etcd of one that moves it has nothing to do.
    pki: { ...pki, ...(own !== undefined && ownCa !== undefined && { etcdCa: ownCa }) },
    encryption: tenant.required(tenant.encryption, 'encryption key'),
    writeStop: writeStopOf(tenant.vc),
    podSecurity: tenant.vc.status?.policy?.podSecurity,
    etcdCa: etcdCa.certPem,
    kubeletCa: kubeletProxyCa.certPem,
    labels: { [labelKeys.virtualCluster]: tenant.ref.name, [labelKeys.namespace]: tenant.ref.namespace },
  });
}

function urlOf({ host, port }: { host: string; port: number }): string {
  return `https://${hostInUrl(host)}:${port}`;
}

/** Reports that components have ended before they are started again, which takes time. */
async function reportOutage(tenant: Tenant, { driver }: Services): Promise<void> {
  if (!tenant.wasReady) return;
  const { components } = await driver.observe(tenant.id);
  for (const { name, state } of components) {
    if (state === 'running') continue;
    const type = name === 'kube-controller-manager' ? 'ControllerManagerReady' : 'APIServerReady';
    const message = `${name} has ended and is started again.`;
    tenant.status.condition(type, 'False', 'Restarting', message);
    tenant.status.condition('Ready', 'False', 'Restarting', message);
  }
}

const pauseMs = 1_000;

/**
 * Shows the latest progress message of a step, after a second and then once a second: in the condition Ready or, of one that
 * is well, in its job.
 */
class ProgressReport {
  readonly #tenant: Tenant;
  readonly #isWell: boolean;
  #message: string | undefined;
  #reason = 'Provisioning';
  #writing: Promise<void> | undefined;
  readonly #end = new AbortController();

  constructor(tenant: Tenant, isWell: boolean) {
    this.#tenant = tenant;
    this.#isWell = isWell;
  }

  tell(message: string, reason = 'Provisioning'): void {
    this.#message = message;
    this.#reason = reason;
    if (!this.#end.signal.aborted) this.#writing ??= this.#write();
  }

  /** From then on nothing is written any more. */
  async end(): Promise<void> {
    this.#end.abort();
    this.#message = undefined;
    await this.#writing;
  }

  async #write(): Promise<void> {
    const { status, clock, signal } = this.#tenant;
    try {
      while (this.#message !== undefined) {
        await clock.sleep(pauseMs, AbortSignal.any([signal, this.#end.signal]));
        if (this.#isWell) recordProgress(this.#tenant, this.#message);
        else status.condition('Ready', 'False', this.#reason, this.#message);
        this.#message = undefined;
        await status.flush();
      }
    } catch {
      // The step itself reports an error of the API server with its next write.
    } finally {
      this.#writing = undefined;
    }
  }
}
