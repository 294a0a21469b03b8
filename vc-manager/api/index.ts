export { crdManifests } from './crds.ts';
export { type EnsureCrdsOptions, ensureCrds } from './ensure-crds.ts';
export { ApiRoomError, type ApiRoomErrorCode } from './errors.ts';
export {
  apiVersion,
  finalizer,
  group,
  idPattern,
  keys,
  kubeconfigKey,
  secretNames,
  validateName,
} from './names.ts';
export { validateVirtualCluster } from './validate.ts';
export type {
  VirtualCluster,
  VirtualClusterPhase,
  VirtualClusterSpec,
  VirtualClusterStatus,
} from './virtual-cluster.ts';
