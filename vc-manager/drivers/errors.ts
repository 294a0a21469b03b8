import { CodedError, messageOf } from '../../kube/index.ts';

/** The scheduler has no node with so much memory left: the code of the error, and the reason of progress. */
export const insufficientMemory = 'InsufficientMemory';

type DriverErrorCode =
  | 'PortInUse'
  | 'CannotStart'
  | 'KeeperUnavailable'
  | 'KeepsExiting'
  | 'NotReady'
  | typeof insufficientMemory
  | 'WillNotStop'
  | 'TakenOver'
  | 'CannotWrite'
  | 'CannotConfine'
  | 'UnknownComponent'
  | 'InvalidName'
  | 'EngineUnavailable'
  | 'EngineTooOld'
  | 'ImageMissing'
  | 'NoImage'
  | 'NotOurs'
  | 'WillNotGo';

interface DriverErrorFields {
  id?: string;
  component?: string;
  port?: number;
  path?: string;
  pid?: number;
}

/** Why a control plane is not as planned. `retryable`: the same call may succeed later without a change. */
export class DriverError extends CodedError<DriverErrorCode> {
  override readonly name = 'DriverError';
  readonly fields: DriverErrorFields;

  constructor(
    code: DriverErrorCode,
    message: string,
    fields: DriverErrorFields,
    options: ErrorOptions & { retryable?: boolean } = {},
  ) {
    super(code, message, options.retryable ?? true, options);
    this.fields = fields;
  }
}

interface Where {
  id: string;
  component: string;
}

export function portInUse(
  where: Where,
  port: number,
  holder: { pid: number; command: string } | undefined,
): DriverError {
  const by = holder === undefined ? 'another process' : `process ${holder.pid} (${holder.command})`;
  return new DriverError(
    'PortInUse',
    `port ${port}, which ${where.component} of ${where.id} needs, is in use by ${by}. Stop it, or free the port.`,
    { ...where, port, ...(holder === undefined ? {} : { pid: holder.pid }) },
  );
}

export function cannotStart(where: Where, path: string, cause: unknown): DriverError {
  return new DriverError(
    'CannotStart',
    `${where.component} of ${where.id} could not be started: ${messageOf(cause)}. Check that ${path} is a program for this machine and may be executed.`,
    { ...where, path },
    { cause },
  );
}

export function noKeeper(path: string, cause: unknown): DriverError {
  return new DriverError(
    'KeeperUnavailable',
    `the keeper of processes at ${path} does not answer: ${messageOf(cause)}. Start it; in the stack of docker-compose.yml it is the container "tenants".`,
    { path },
    { cause },
  );
}

export function keepsExiting(
  where: Where,
  exits: number,
  exit: string,
  tail: readonly string[],
): DriverError {
  return new DriverError(
    'KeepsExiting',
    `${where.component} of ${where.id} has exited ${exits} times in a row (${exit}).${lastLines(tail)}`,
    where,
  );
}

export function notReady(
  where: Where,
  timeoutMs: number,
  reason: string,
  tail: readonly string[],
): DriverError {
  return new DriverError(
    'NotReady',
    `${where.component} of ${where.id} runs but was not ready within ${timeoutMs / 1000} s (${reason}).${lastLines(tail)}`,
    where,
  );
}

export function willNotStop(where: Where, pid: number): DriverError {
  return new DriverError(
    'WillNotStop',
    `process ${pid}, ${where.component} of ${where.id}, goes on after SIGKILL. Look at what it waits for (ps -o stat,wchan ${pid}).`,
    { ...where, pid },
  );
}

export function cannotConfine(where: { id: string }, cause: unknown): DriverError {
  return new DriverError(
    'CannotConfine',
    `the connections of ${where.id} cannot be confined to what it needs: ${messageOf(cause)}. Nothing of it is started so; see whether "nft list ruleset" works.`,
    where,
    { cause },
  );
}

export function takenOver(where: Where): DriverError {
  return new DriverError(
    'TakenOver',
    `${where.component} of ${where.id} was stopped or started anew by another manager. Let only one run on this directory.`,
    where,
  );
}

export function cannotWrite(where: Partial<Where>, path: string, cause: unknown): DriverError {
  return new DriverError(
    'CannotWrite',
    `${path} could not be written: ${messageOf(cause)}. Check free space and permissions.`,
    { ...where, path },
    { cause },
  );
}

export function unknownComponent(where: Where, known: readonly string[]): DriverError {
  const has = known.length === 0 ? 'It has none here.' : `It has ${known.join(', ')}.`;
  return new DriverError(
    'UnknownComponent',
    `${where.id} has no log of a component ${where.component}. ${has}`,
    where,
    { retryable: false },
  );
}

export function invalidName(what: string, name: string): DriverError {
  return new DriverError(
    'InvalidName',
    `${JSON.stringify(name)} cannot name a ${what}: use lower-case letters, digits and dashes, at most 63.`,
    {},
    { retryable: false },
  );
}

/** Of pods, which may not even run. */
export function podsNotReady(
  where: Where,
  waitedMs: number,
  reason: string,
  tail: readonly string[],
  code: 'NotReady' | typeof insufficientMemory = 'NotReady',
): DriverError {
  return new DriverError(
    code,
    `${where.component} of ${where.id} was not ready, and nothing has changed for ${Math.round(waitedMs / 1000)} s: ${reason}.${lastLines(tail)}`,
    where,
  );
}

export function imageUnavailable(where: Where, image: string, reason: string): DriverError {
  return new DriverError(
    'CannotStart',
    `${where.component} of ${where.id} could not be started: ${reason}. Check that nodes can pull ${image}, or name a registry that has it with --image-registry.`,
    { ...where, path: image },
  );
}

export function notOurs(id: string, namespace: string): DriverError {
  return new DriverError(
    'NotOurs',
    `the namespace ${namespace}, which control plane ${id} needs, was not made by Skerry and is not touched. Delete it, or give the VirtualCluster another id.`,
    { id },
    { retryable: false },
  );
}

export function podsWillNotStop(where: Where, pods: readonly string[]): DriverError {
  return new DriverError(
    'WillNotStop',
    `${pods.join(', ')} of ${where.id} did not end in time. Look at its node; a pod of a node that is lost goes with "kubectl delete --force".`,
    where,
  );
}

export function namespaceWillNotGo(id: string, namespace: string, why: string): DriverError {
  return new DriverError('WillNotGo', `the namespace ${namespace} of ${id} is still there${why}.`, { id });
}

function lastLines(tail: readonly string[]): string {
  return tail.length === 0 ? ' It wrote no log.' : ` Last lines of its log:\n${tail.join('\n')}`;
}
