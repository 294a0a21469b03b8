export type OperatorErrorCode =
  | 'InvalidSettings'
  | 'InvalidId'
  | 'IdInUse'
  | 'PoolExhausted'
  | 'AddressTaken'
  | 'PortsExhausted'
  | 'PortTaken'
  | 'SecretNotOurs'
  | 'TenantNotBootstrapped'
  | 'TemplateNotAllowed'
  | 'VersionTooNew'
  | 'InvalidAddon'
  | 'NoAddon'
  | 'AddonNotOurs'
  | 'NoLongerLeading'
  | 'ObjectReplaced';

/** Why a VirtualCluster is not what it should be; the code becomes the reason of a condition. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
  readonly code: OperatorErrorCode;
  /** False: nothing gets better until somebody changes something. It is tried again all the same, later. */
  readonly retryable: boolean;

  constructor(code: OperatorErrorCode, message: string, retryable: boolean, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = retryable;
  }
}

/** Thrown by a step that has done its part and waits for somebody else's; not a failure. */
export class NotYet extends Error {
  override readonly name = 'NotYet';
  /** Look again after this long, if nothing happens before. */
  readonly againAfterMs: number;
  /** Reason of the condition Ready meanwhile. */
  readonly reason: string;

  constructor(message: string, againAfterMs: number, reason = 'Deleting') {
    super(message);
    this.againAfterMs = againAfterMs;
    this.reason = reason;
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
    `${cause.message} The port ${port} stands in kubeconfigs that were handed out, so it is not changed.`,
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

export function tenantNotBootstrapped(missing: string, waitedMs: number): OperatorError {
  return new OperatorError(
    'TenantNotBootstrapped',
    `the tenant's API server runs, but ${missing} does not exist after ${Math.round(waitedMs / 1000)} s. ` +
      'Its controller manager makes it: look at its log.',
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
