import { CodedError } from '../../kube/index.ts';

export type ApiRoomErrorCode = 'CrdNotEstablished' | 'CrdNameConflict' | 'InvalidVirtualCluster';

/** What can be wrong with Skerry's own API objects. */
export class ApiRoomError extends CodedError<ApiRoomErrorCode> {
  override readonly name = 'ApiRoomError';
}

export function crdNotEstablished(name: string, waitedMs: number): ApiRoomError {
  return new ApiRoomError(
    'CrdNotEstablished',
    `the super cluster does not serve CustomResourceDefinition ${name} after ${Math.round(waitedMs / 1000)} s. ` +
      `Look at its conditions: kubectl describe crd ${name}`,
    true,
  );
}

export function crdNameConflict(name: string, message: string): ApiRoomError {
  return new ApiRoomError(
    'CrdNameConflict',
    `the super cluster does not accept the names of CustomResourceDefinition ${name}: ${message}. ` +
      'Remove the CustomResourceDefinition that holds them.',
    false,
  );
}

export function invalidVirtualCluster(problems: readonly string[]): ApiRoomError {
  return new ApiRoomError(
    'InvalidVirtualCluster',
    `the VirtualCluster is not valid: ${problems.join('; ')}`,
    false,
  );
}
