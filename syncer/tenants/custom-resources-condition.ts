import type { CustomResourceProblem } from '../controllers/custom-resources.ts';
import type { TenantInfo } from '../kinds/contract.ts';
import type { SyncerCondition } from './status-writer.ts';

/** What becomes of the custom resources that a tenant has opted in to, for its operator to read. */
export function customResourcesCondition(
  { customResources }: Pick<TenantInfo, 'customResources'>,
  problems: readonly CustomResourceProblem[],
): SyncerCondition {
  const type = 'CustomResourcesSynced';
  if (customResources.length === 0) {
    return { type, status: 'True', reason: 'NoneWanted', message: 'spec.sync.customResources is empty' };
  }
  if (problems.length === 0) {
    return { type, status: 'True', reason: 'Synced', message: 'all of spec.sync.customResources are synced' };
  }
  const message = problems.map(({ name, reason }) => `${name} ${reason}`).join('; ');
  return { type, status: 'False', reason: 'NotSynced', message };
}
