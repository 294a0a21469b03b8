import { type DriverName, defaultDriver } from '../../api/drivers.ts';
import { isForPods } from '../../api/tenant-state.ts';
import type { ControlPlanePlacement, Move, VirtualCluster } from '../../api/virtual-cluster.ts';
import { isLoopback } from '../../program/addresses.ts';
import type { TemplateChoice } from '../control-plane/template.ts';
import type { ControlPlaneDriver } from '../drivers/driver.ts';
import { isHeld } from '../jobs/job-status.ts';
import { limitingPolicy } from './effective-policy.ts';
import {
  driverMissing,
  driverNotAllowed,
  driverNotConfigured,
  moveNotSupported,
  OperatorError,
  templateNotAllowed,
} from './errors.ts';
import type { Services } from './services.ts';
import { datastoreOf, type VersionSources, versionChoice, wantedDatastore } from './version-choice.ts';

/** Where the spec has a control plane go, and why it does not, if it does not. */
interface WantedMove {
  from: ControlPlanePlacement;
  to: ControlPlanePlacement;
  /** Of the new place. */
  choice: TemplateChoice;
  refusal?: { reason: string; message: string };
}

type MoveServices = Pick<Services, 'drivers'> &
  Omit<VersionSources, 'settings'> & {
    settings: VersionSources['settings'] & Pick<Services['settings'], 'gateway' | 'etcdEndpoint'>;
  };

/** What runs a control plane, or will. */
function driverOf({ spec, status }: VirtualCluster, preferred: DriverName): DriverName {
  if (status?.version !== undefined) return status.driver ?? defaultDriver;
  return spec?.driver ?? preferred;
}

/** The same services with the driver of this VirtualCluster, if this manager has it. */
export function servicesFor(vc: VirtualCluster, services: Services): Services {
  const name = driverOf(vc, services.settings.driver);
  // The step `address` reports one that is missing.
  return services.drivers.has(name) ? servicesAt(name, services) : services;
}

/** Throws `DriverChanged`. */
export function servicesAt(name: DriverName, services: Services): Services {
  if (name === services.settings.driver) return services;
  const driver = driverAt({ driver: name }, services);
  return { ...services, driver, settings: { ...services.settings, driver: name } };
}

/** Throws `DriverChanged`: a manager without it can neither start, stop nor remove what it runs. */
export function driverAt(
  { driver: name }: Pick<ControlPlanePlacement, 'driver'>,
  { drivers }: Pick<Services, 'drivers'>,
): ControlPlaneDriver {
  const driver = drivers.get(name);
  if (driver === undefined) throw driverMissing(name, [...drivers.keys()]);
  return driver;
}

/** Throws `DriverNotAllowed` where the policy of the namespace does not let `spec.driver` name this one. */
export function checkDriver(
  { metadata }: VirtualCluster,
  wanted: DriverName,
  { policies }: Pick<MoveServices, 'policies'>,
): void {
  const policy = limitingPolicy(metadata.namespace ?? '', policies.list());
  const allowed = policy?.spec?.drivers;
  if (allowed !== undefined && !allowed.includes(wanted))
    throw driverNotAllowed(wanted, policy?.metadata.name ?? '', allowed);
}

/** Throws `TemplateNotAllowed` or `DriverNotAllowed` for a place where the policy of the namespace lets no spec lead. */
export function checkPlacement(
  vc: VirtualCluster,
  from: Omit<ControlPlanePlacement, 'template'>,
  to: ControlPlanePlacement,
  { policies }: Pick<MoveServices, 'policies'>,
): void {
  const policy = limitingPolicy(vc.metadata.namespace ?? '', policies.list());
  const allowed = policy?.spec?.templates;
  if (from.datastore !== to.datastore && allowed?.includes(to.template) === false)
    throw templateNotAllowed(to.template, policy?.metadata.name ?? '', allowed);
  if (from.driver !== to.driver) checkDriver(vc, to.driver, { policies });
}

/**
 * The move that the spec asks for; undefined when there is none, or it cannot be told. Whether the control plane is well,
 * and what else is under way, is not looked at.
 */
export function wantedMove(vc: VirtualCluster, services: MoveServices): WantedMove | undefined {
  const { spec, status } = vc;
  if (status?.identities?.tenant === undefined || status.version === undefined) return undefined;
  const driver = status.driver ?? defaultDriver;
  let found: ReturnType<typeof versionChoice>;
  try {
    found = versionChoice(vc, services);
  } catch {
    // The step `version` reports what is wrong.
    return undefined;
  }
  const choice = found.elsewhere ?? found.choice;
  const from = placementOf(driver, found.choice);
  const to = placementOf(spec?.driver ?? driver, choice);
  if (from.driver === to.driver && from.datastore === to.datastore) return undefined;
  const { refusal } = found;
  if (refusal !== undefined && from.datastore !== to.datastore) return { from, to, choice, refusal };
  return { from, to, choice, ...refusalOf(vc, services, from, to) };
}

function placementOf(driver: DriverName, choice: TemplateChoice): ControlPlanePlacement {
  return { driver, datastore: datastoreOf(choice), template: choice.template.metadata.name };
}

/** As jobs and people name it. */
export function placementText({
  driver,
  datastore,
}: Pick<ControlPlanePlacement, 'driver' | 'datastore'>): string {
  return `${driver}/${datastore}`;
}

function refusalOf(
  vc: VirtualCluster,
  services: MoveServices,
  from: ControlPlanePlacement,
  to: ControlPlanePlacement,
): Pick<WantedMove, 'refusal'> {
  try {
    const { drivers } = services;
    checkPlacement(vc, from, to, services);
    if (drivers.get(to.driver) === undefined) throw driverNotConfigured(to.driver, [...drivers.keys()]);
    if (from.driver !== to.driver) {
      const why = whyNot(vc, services, from, to);
      if (why !== undefined) throw moveNotSupported(from.driver, to.driver, why);
    }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { refusal: { reason: error.code, message: error.message } };
  }
  if (!isHeld(vc, 'move', 0)) return {};
  const { why } = vc.status?.jobs?.heldMove ?? {};
  const again = '"vc-manager jobs retry" or a change of the spec tries again.';
  if (why === undefined)
    return { refusal: { reason: 'Cancelled', message: `Its move was cancelled; ${again}` } };
  return {
    refusal: { reason: 'RolledBack', message: `It went back, as it could not go there: ${why} ${again}` },
  };
}

/**
 * Why the move that is being prepared ends: the spec asks for its place no more or for a version that is refused, or the
 * policy of the namespace does not allow it any more. Undefined: it goes on. Later than that only another move leads back.
 */
export function moveWithdrawalReason(vc: VirtualCluster, services: MoveServices): string | undefined {
  const { move } = vc.status ?? {};
  if (move?.stage !== 'preparing') return undefined;
  const { from, to } = move;
  const { datastore, refusal } = wantedDatastore(vc, services) ?? { datastore: to.datastore };
  if ((vc.spec?.driver ?? from.driver) !== to.driver || datastore !== to.datastore)
    return 'The spec asks for it no more.';
  // As for one that has not begun.
  if (refusal !== undefined && from.datastore !== to.datastore) return refusal.message;
  try {
    checkPlacement(vc, from, to, services);
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return error.message;
  }
  return undefined;
}

/** Why it cannot go to another driver; undefined: it can. */
function whyNot(
  vc: VirtualCluster,
  services: MoveServices,
  from: ControlPlanePlacement,
  to: ControlPlanePlacement,
): string | undefined {
  const { drivers, settings } = services;
  if (from.datastore === 'own' && to.datastore === 'own')
    return 'its etcd cannot go along: move it to the shared datastore first, and to an etcd of its own there';
  if (!isReaddressed({ from, to }, services)) return undefined;
  if (settings.gateway === undefined)
    return (
      'its API server gets another address there, and kubeconfigs name the one that it has: start a gateway, and the ' +
      'manager with --gateway and --gateway-domain'
    );
  if (vc.status?.serviceIPMode === 'assigned' && !isForPods(vc.status.gateway))
    return (
      'its pods have been told an address of its API server that goes, as the super cluster assigns service addresses: ' +
      'lead pods through the gateway with --gateway-pod-address, or take a snapshot, and make the tenant of it there'
    );
  const isInPods = drivers.get(to.driver)?.locate !== undefined;
  if (isInPods && to.datastore === 'shared' && isLoopback(new URL(settings.etcdEndpoint).hostname))
    return (
      `pods do not reach the datastore at ${settings.etcdEndpoint}: let it listen at another address, and start the manager ` +
      'with that as --etcd-endpoint'
    );
  return undefined;
}

/** Whether the API server gets an address of another kind: one of the manager's machine, or one that the driver makes. */
export function isReaddressed(
  { from, to }: Pick<Move, 'from' | 'to'>,
  { drivers }: Pick<Services, 'drivers'>,
): boolean {
  const [here, there] = [from, to].map(({ driver }) => drivers.get(driver)?.locate !== undefined);
  return here !== there;
}

/** Where it is at present, and where it is not or not any more. */
export function placementsOf({ stage, from, to }: Move): {
  here: ControlPlanePlacement;
  there: ControlPlanePlacement;
} {
  const isThere = stage === 'starting' || stage === 'settling';
  return isThere ? { here: to, there: from } : { here: from, there: to };
}
