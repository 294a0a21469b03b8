import { nameTenant } from '../../api/names.ts';
import type { VirtualCluster } from '../../api/virtual-cluster.ts';
import { ApiError, CodedError, ConnectionError } from '../../kube/index.ts';
import { insufficientMemory } from '../drivers/errors.ts';

type OperatorErrorCode =
  | 'InvalidSettings'
  | 'InvalidId'
  | 'IdInUse'
  | 'IdNotProven'
  | 'PoolExhausted'
  | 'AddressTaken'
  | 'AddressNotFreed'
  | 'PortsExhausted'
  | 'PortTaken'
  | 'SecretNotOurs'
  | 'SecretNotCopied'
  | 'PkiLost'
  | 'TenantNotBootstrapped'
  | 'TenantTooSlow'
  | 'TooManySchedules'
  | 'AnswersContradict'
  | 'TemplateNotAllowed'
  | 'VersionTooNew'
  | 'VersionDowngrade'
  | 'VersionSkipped'
  | 'DatastoreChanged'
  | 'DriverChanged'
  | 'DriverNotAllowed'
  | 'DriverNotConfigured'
  | 'MoveNotSupported'
  | 'AddressUnreachable'
  | 'DatastoreNotKept'
  | 'MoveOutpaced'
  | 'CopyTooSlow'
  | 'DatastoreQuotaExceeded'
  | 'InvalidAddon'
  | 'NoAddon'
  | 'AddonNotOurs'
  | 'NoSnapshotStore'
  | 'SnapshotTooSlow'
  | 'SnapshotStorageExceeded'
  | 'CertificatesNotEncrypted'
  | 'CertificatesAbsent'
  | 'CertificatesInUse'
  | 'CertificatesWanted'
  | 'NoLongerLeading'
  | 'ObjectReplaced';

/**
 * Why a VirtualCluster is not what it should be; the code becomes the reason of a condition. An error that is not
 * retryable sets the phase Failed at once; it is tried again all the same, with back-off.
 */
export class OperatorError extends CodedError<OperatorErrorCode> {
  override readonly name = 'OperatorError';
  /** How long others come first. */
  readonly retryAfterMs: number | undefined;

  constructor(
    code: OperatorErrorCode,
    message: string,
    retryable: boolean,
    { retryAfterMs, ...options }: ErrorOptions & { retryAfterMs?: number } = {},
  ) {
    super(code, message, retryable, options);
    this.retryAfterMs = retryAfterMs;
  }
}

/** Thrown by a step that waits for something outside of the manager; not a failure. */
export class RequeueAfter extends Error {
  override readonly name = 'NotYet';
  /** Reconcile again after this long, unless an event comes before. */
  readonly againAfterMs: number;
  /** Reason of the condition Ready meanwhile. */
  readonly reason: string;
  /** It waits to try what may have failed before: until then the status and the back-off are those of the failure. */
  readonly keepsFailures: boolean;

  constructor(
    message: string,
    againAfterMs: number,
    { reason = 'Deleting', keepsFailures = false }: { reason?: string; keepsFailures?: boolean } = {},
  ) {
    super(message);
    this.againAfterMs = againAfterMs;
    this.reason = reason;
    this.keepsFailures = keepsFailures;
  }
}

export function invalidSettings(setting: string, why: string): OperatorError {
  return new OperatorError('InvalidSettings', `the manager's setting ${setting} is not valid: ${why}`, false);
}

export function invalidId(id: string): OperatorError {
  return new OperatorError(
    'InvalidId',
    `the annotation skerry.dev/id is "${id}", but an id has 6 to 20 lower-case letters and digits. ` +
      'Remove the annotation, unless a control plane is to be restored: then set it to that id.',
    false,
  );
}

export function idInUse(id: string, holder: string): OperatorError {
  return new OperatorError(
    'IdInUse',
    `the id ${id} of the annotation skerry.dev/id belongs to VirtualCluster ${holder}. ` +
      'Remove the annotation to get a control plane of its own, or delete the other one first.',
    false,
  );
}

export function idNotProven(id: string, secret: string): OperatorError {
  return new OperatorError(
    'IdNotProven',
    `there is a control plane or data of the id ${id} of the annotation skerry.dev/id, and Secret ${secret} has no etcd ` +
      'client certificate of it from this manager. To restore that control plane, restore this Secret with the ' +
      'VirtualCluster; to get a new one, remove the annotation; to remove what is left of the old one, use "vc-manager gc".',
    false,
  );
}

export function poolExhausted(pool: string, prefixLength: number): OperatorError {
  return new OperatorError(
    'PoolExhausted',
    `no free /${prefixLength} is left in the pool of service addresses ${pool}. Delete VirtualClusters that are ` +
      'not needed, or run the manager with a larger service pool or smaller slices.',
    false,
  );
}

export function addressTaken(address: string, slice: string, holder: string): OperatorError {
  return new OperatorError(
    'AddressTaken',
    `the address ${address} of this tenant's slice ${slice} is held by ${holder} in the super cluster. ` +
      'Delete that object, so that the address can be reserved again.',
    false,
  );
}

export function addressNotFreed(address: string, holder: string, seconds: number): OperatorError {
  return new OperatorError(
    'AddressNotFreed',
    `the address ${address}, where its pods look for their API server, is held by ${holder}, and has not become free ` +
      `within ${seconds} s. A syncer that has not seen that this tenant moves makes its Service there anew: look ` +
      'whether all vc-syncers reach the super cluster, and restart the one that does not.',
    true,
  );
}

export function portsExhausted(first: number, last: number): OperatorError {
  return new OperatorError(
    'PortsExhausted',
    `no free port is left between ${first} and ${last}. Delete VirtualClusters that are not needed, end programs ` +
      'that listen there, or give the manager a larger range.',
    false,
  );
}

export function portTaken(port: number, cause: Error): OperatorError {
  return new OperatorError(
    'PortTaken',
    `${cause.message} The port ${port} is part of kubeconfigs that are in use, so it is not changed.`,
    true,
    { cause },
  );
}

export function secretNotOurs(namespace: string, name: string): OperatorError {
  return new OperatorError(
    'SecretNotOurs',
    `Secret ${namespace}/${name} exists and was not made for this VirtualCluster. ` +
      `Rename or delete it (kubectl -n ${namespace} delete secret ${name}), or give the VirtualCluster another name.`,
    false,
  );
}

export function secretNotCopied(secret: string): OperatorError {
  return new OperatorError(
    'SecretNotCopied',
    `Secret ${secret} does not hold what was written to it; the one that it was copied from is kept. Look whether ` +
      'a webhook or a controller of the super cluster changes Secrets.',
    true,
  );
}

export function pkiLost(namespace: string, name: string): OperatorError {
  return new OperatorError(
    'PkiLost',
    `Secret ${namespace}/${name} with the authorities of this control plane is gone. No others are made, because ` +
      'nothing that knows the old ones would trust them, and no token of its pods would count. ' +
      'Restore the Secret from a backup, or delete the VirtualCluster and create it anew.',
    false,
  );
}

export function tenantNotBootstrapped(missing: string, waitedMs: number): OperatorError {
  return new OperatorError(
    'TenantNotBootstrapped',
    `the tenant's API server runs, but ${missing} does not exist after ${Math.round(waitedMs / 1000)} s. ` +
      'Its controller manager makes it: look at its log.',
    true,
  );
}

export function tenantTooSlow(longestMs: number): OperatorError {
  return new OperatorError(
    'TenantTooSlow',
    `the tenant's API server is too slow: what was asked of it was not all answered after ${longestMs / 1000} s, and ` +
      'other tenants wait. Look at its log, and at the webhooks and APIServices of the tenant; it is tried again by itself.',
    true,
    { retryAfterMs: 60_000 },
  );
}

export function tooManySchedules(read: number): OperatorError {
  return new OperatorError(
    'TooManySchedules',
    `the tenant has more CronJobs, of different schedules, than the manager reads: ${read} were, and when the others are ` +
      'due is not known. Delete or suspend some, or give many the same schedule; it is tried again by itself.',
    true,
  );
}

export function answersContradict(what: string): OperatorError {
  return new OperatorError(
    'AnswersContradict',
    `the API server says each time that there is no ${what}, and that it exists when it is to be created. Look at what ` +
      'answers in its place, such as an APIService, or what creates and deletes that object; it is tried again by itself.',
    true,
  );
}

export function templateNotAllowed(
  template: string | undefined,
  policy: string,
  allowed: readonly string[],
): OperatorError {
  const which = template === undefined ? 'a template' : `the template ${template}`;
  return new OperatorError(
    'TemplateNotAllowed',
    `VirtualClusterPolicy ${policy} does not allow ${which} for this namespace. ` +
      `Choose one of these with spec.template: ${allowed.join(', ')}; or have the policy changed.`,
    false,
  );
}

export function versionTooNew(version: string, superVersion: string, newest: string): OperatorError {
  return new OperatorError(
    'VersionTooNew',
    `Kubernetes ${version} is more than one minor version above the super cluster's ${superVersion}, and pods could ` +
      `not be carried over faithfully. Ask for ${newest} or older with spec.version, or have the super cluster upgraded.`,
    false,
  );
}

export function versionDowngrade(version: string, running: string): OperatorError {
  return new OperatorError(
    'VersionDowngrade',
    `Kubernetes ${version} is older than ${running}, which has written the data that is there. ` +
      `Ask for ${running} or newer with spec.version.`,
    false,
  );
}

export function versionSkipped(version: string, running: string, next: string): OperatorError {
  return new OperatorError(
    'VersionSkipped',
    `Kubernetes ${version} is more than one minor version above ${running}, and none may be skipped. ` +
      `Ask for ${next} with spec.version first.`,
    false,
  );
}

export function invalidAddon(name: string, problem: string): OperatorError {
  return new OperatorError(
    'InvalidAddon',
    `the addon ${name} of the control plane template is not valid: ${problem}. Correct the template.`,
    false,
  );
}

export function noAddon(name: string, template: string): OperatorError {
  return new OperatorError(
    'NoAddon',
    `the control plane template ${template} has no addon ${name}. Add it to the template, or set spec.dns to none.`,
    false,
  );
}

export function addonNotOurs(
  addon: string,
  kind: string,
  { namespace, name }: { namespace?: string | undefined; name: string },
): OperatorError {
  const where = namespace === undefined ? name : `${namespace}/${name}`;
  return new OperatorError(
    'AddonNotOurs',
    `the tenant has a ${kind} ${where} that was not made as part of the addon ${addon}, and it is left alone. ` +
      'Set spec.dns to none to keep it, or delete it to have the addon installed.',
    false,
  );
}

export function noLongerLeading(): OperatorError {
  return new OperatorError(
    'NoLongerLeading',
    'another manager may have taken over: this one does no more',
    true,
  );
}

export function objectReplaced(key: string): OperatorError {
  return new OperatorError('ObjectReplaced', `VirtualCluster ${key} is another object by now`, true);
}

export function driverChanged(has: string, wanted: string): OperatorError {
  return new OperatorError(
    'DriverChanged',
    `the control plane was made by the driver ${has}, and this manager has the driver ${wanted}: it would run twice. ` +
      `Run a manager with --driver ${has} for it, also to delete it.`,
    false,
  );
}

export function driverMissing(name: string, has: readonly string[]): OperatorError {
  return new OperatorError(
    'DriverChanged',
    `it is being moved to or from the driver ${name}, and this manager has ${has.join(' and ')}: start it with ` +
      `--other-driver ${name}. The move waits for that.`,
    true,
  );
}

export function driverNotConfigured(wanted: string, has: readonly string[]): OperatorError {
  return new OperatorError(
    'DriverNotConfigured',
    `spec.driver is ${wanted}, and this manager has ${has.join(' and ')}. Start it with --other-driver ${wanted}, or choose another one.`,
    false,
  );
}

export function driverNotAllowed(wanted: string, policy: string, allowed: readonly string[]): OperatorError {
  return new OperatorError(
    'DriverNotAllowed',
    `VirtualClusterPolicy ${policy} does not allow the driver ${wanted} for this namespace. ` +
      `Choose one of these with spec.driver: ${allowed.join(', ')}; or have the policy changed.`,
    false,
  );
}

export function moveNotSupported(from: string, to: string, why: string): OperatorError {
  return new OperatorError('MoveNotSupported', `it cannot be moved from ${from} to ${to}: ${why}.`, false);
}

export function addressUnreachable(endpoint: string, cause: Error, isOfService: boolean): OperatorError {
  return new OperatorError(
    'AddressUnreachable',
    `its API server is ready at ${endpoint}, and the manager does not reach it there (${cause.message}): ` +
      (isOfService
        ? 'run manager, gateway and syncer where that address of a Service in the super cluster leads to it'
        : 'let manager, gateway and syncer through to that port of the machine that the manager runs on'),
    false,
  );
}

export function datastoreNotKept(): OperatorError {
  return new OperatorError(
    'DatastoreNotKept',
    'an etcd of its own would have no volume here and lose all data with its pod: run the manager with --storage-class',
    false,
  );
}

export function moveOutpaced(behind: number, tried: string): OperatorError {
  return new OperatorError(
    'MoveOutpaced',
    `the old datastore is written to faster than the new one can count up to its revision: ${behind} are left, and ${tried}. ` +
      'Have clients write less until it is moved (in the shared datastore those of all tenants count), or move it when they do.',
    false,
  );
}

/** The least that etcd's own compaction leaves, and what DatastoreWatch does. */
const historyKept = 'at least 2 minutes 30 seconds, and less only where it is more than half full';

export function copyTooSlow(written: number, cause: Error): OperatorError {
  return new OperatorError(
    'CopyTooSlow',
    `copying took longer than the old datastore keeps what was, which is ${historyKept}: ${written} entries were copied. ` +
      'Delete what the tenant does not need, or move it when the datastores have less to do.',
    false,
    { cause },
  );
}

export function datastoreQuotaExceeded(resource: string, limit: string): OperatorError {
  return new OperatorError(
    'DatastoreQuotaExceeded',
    `what would be written into the datastore of all tenants is more than the quota ${resource} of the tenant, ${limit}. ` +
      `Have ${resource} raised in spec.quota, and in the quota of the policy of its namespace where that is lower, and try ` +
      'again; or delete what is not needed, or use a template with an etcd of its own.',
    false,
  );
}

export function datastoreChanged(template: string, has: string): OperatorError {
  return new OperatorError(
    'DatastoreChanged',
    `the template ${template} is gone, or is not for the version and the datastore of the control plane, whose keys lie in ` +
      `the ${has} one, and there is no other template for both: put the template back, or add one.`,
    false,
  );
}

/** For messages. */
export function inMiB(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

/** An error as conditions show it and as the queue needs it. */
interface Explanation {
  /** For a condition: CamelCase. */
  reason: string;
  message: string;
  /** False: trying again helps only after a change of the VirtualCluster, the settings or another object. */
  retryable: boolean;
  retryAfterMs?: number | undefined;
  /** The component that the error names, if any. */
  component?: string | undefined;
}

const longestMessage = 4_000;

/** The one place where errors of the manager become reasons of conditions; of a tenant they name it as people do. */
export function explain(error: unknown, tenant?: { vc: VirtualCluster; key: string }): Explanation {
  const explanation = explainAny(error);
  const id = tenant?.vc.status?.id;
  if (tenant === undefined || id === undefined) return explanation;
  return { ...explanation, message: truncate(nameTenant(explanation.message, id, tenant.key)) };
}

function explainAny(error: unknown): Explanation {
  if (error instanceof ApiError) {
    const reason = camelCase(error.reason);
    return {
      // A tenant's API server chooses its reasons.
      reason: reason === '' || reason === insufficientMemory ? `HTTP${error.code}` : reason,
      message: truncate(error.message),
      retryable: error.retryable,
      retryAfterMs: error.retryAfterMs,
    };
  }
  if (error instanceof ConnectionError) {
    return { reason: 'Unreachable', message: truncate(error.message), retryable: true };
  }
  if (!(error instanceof Error))
    return { reason: 'InternalError', message: truncate(String(error)), retryable: true };
  // Errors of the manager are CodedErrors; system errors have a code too.
  const { code, retryable, retryAfterMs, fields } = error as Error & {
    code?: unknown;
    retryable?: unknown;
    retryAfterMs?: unknown;
    fields?: { component?: string };
  };
  return {
    reason: (typeof code === 'string' && camelCase(code)) || 'InternalError',
    message: truncate(error.message),
    retryable: typeof retryable === 'boolean' ? retryable : true,
    ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
    component: fields?.component,
  };
}

export function noSnapshotStore(): OperatorError {
  return new OperatorError(
    'NoSnapshotStore',
    'this manager has no place for snapshots: start it with --snapshot-store and a directory or s3://BUCKET/PREFIX',
    false,
  );
}

export function snapshotTooSlow(
  { read, count, location }: { read: number; count: number; location: string },
  cause: Error,
): OperatorError {
  return new OperatorError(
    'SnapshotTooSlow',
    `taking it took longer than the datastore keeps what was, which is ${historyKept}: ${read} of about ${count} entries ` +
      `were read. Look whether the snapshot store ${location} takes what is written to it too slowly, and how full the datastore ` +
      'is; or delete what the tenant does not need. It is tried again by itself.',
    true,
    { cause },
  );
}

export function snapshotStorageExceeded(
  { usedBytes, maxBytes }: { usedBytes: number; maxBytes: number },
  { namespace, location }: { namespace: string; location: string },
): OperatorError {
  return new OperatorError(
    'SnapshotStorageExceeded',
    `the snapshots of the namespace ${namespace} may take ${inMiB(maxBytes)} in ${location} and take ${inMiB(usedBytes)}: there ` +
      'is no room for another one of this tenant, and nothing of it is kept. Keep fewer (spec.snapshots.keep), have some of ' +
      `${namespace}/ removed there, as of tenants that are deleted, or have maxSnapshotStorage of the VirtualClusterPolicy raised.`,
    false,
  );
}

export function certificatesNotEncrypted(): OperatorError {
  return new OperatorError(
    'CertificatesNotEncrypted',
    'certificates and their keys go into encrypted snapshots only: start the manager with --snapshot-recipient, as ' +
      '"age-keygen" prints it',
    false,
  );
}

export function certificatesAbsent(why: string): OperatorError {
  return new OperatorError('CertificatesAbsent', `there are no certificates to go by: ${why}`, false);
}

export function certificatesInUse(name: string): OperatorError {
  return new OperatorError(
    'CertificatesInUse',
    `the tenant ${name}, whose certificates these are, is still here: each of the two would take what was handed out for ` +
      'the other. Delete it first, or do without spec.restoreCertificates.',
    false,
  );
}

/** For a moment: the next attempt sees who has got them. */
export function certificatesWanted(name: string): OperatorError {
  return new OperatorError(
    'CertificatesWanted',
    `${name} is being made with the same certificates: which of the two gets them is looked at again.`,
    true,
  );
}

// A reason of a condition matches [A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?
function camelCase(code: string): string {
  const name = code
    .split(/[^A-Za-z0-9]+/)
    .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
    .join('');
  return /^[A-Za-z]/.test(name) ? name : '';
}

function truncate(message: string): string {
  return message.length <= longestMessage ? message : `${message.slice(0, longestMessage)}...`;
}
