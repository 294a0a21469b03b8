import { CodedError, messageOf } from '../../kube/index.ts';

type SnapshotErrorCode =
  | 'SnapshotNotFound'
  | 'NotASnapshot'
  | 'SnapshotDamaged'
  | 'SnapshotTooNew'
  | 'SnapshotEncrypted'
  | 'SnapshotForeign'
  | 'SnapshotStoreFailed'
  | 'UnknownEncryption'
  | 'InvalidSnapshotStore';

/** What can be wrong with a snapshot or with the place that keeps it. Nothing of a tenant was changed. */
export class SnapshotError extends CodedError<SnapshotErrorCode> {
  override readonly name = 'SnapshotError';
}

export function snapshotNotFound(name: string, location: string): SnapshotError {
  return new SnapshotError(
    'SnapshotNotFound',
    `there is no snapshot ${name} in ${location}: see "vc-manager snapshot --list", or put the file there`,
    false,
  );
}

export function notASnapshot(name: string, why: string): SnapshotError {
  return new SnapshotError('NotASnapshot', `${name} is no snapshot of a tenant: ${why}`, false);
}

export function damaged(name: string, why: string): SnapshotError {
  return new SnapshotError(
    'SnapshotDamaged',
    `the snapshot ${name} is damaged: ${why}. Nothing was changed; use another one, or copy it anew`,
    false,
  );
}

export function snapshotTooNew(name: string, why: string): SnapshotError {
  return new SnapshotError('SnapshotTooNew', `the snapshot ${name} is too new: ${why}`, false);
}

export function snapshotEncrypted(name: string, cause?: unknown): SnapshotError {
  return new SnapshotError(
    'SnapshotEncrypted',
    `the snapshot ${name} is encrypted, and no identity that the manager has opens it: ` +
      'start it with --snapshot-identity-file and the age identity of one of its recipients',
    false,
    { cause },
  );
}

export function snapshotForeign(name: string, why: string): SnapshotError {
  return new SnapshotError('SnapshotForeign', `the snapshot ${name} cannot be restored here: ${why}`, false);
}

export function unknownEncryption(key: string, how: string): SnapshotError {
  return new SnapshotError(
    'UnknownEncryption',
    `the value of ${key} is encrypted with ${how}, which is not a key of this tenant that the manager has`,
    false,
  );
}

export function invalidStore(why: string): SnapshotError {
  return new SnapshotError('InvalidSnapshotStore', why, false);
}

export function storeFailed(location: string, cause: unknown): SnapshotError {
  return new SnapshotError(
    'SnapshotStoreFailed',
    `the snapshot store ${location} failed: ${messageOf(cause)}`,
    true,
    {
      cause,
    },
  );
}
