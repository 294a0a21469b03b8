import { annotationKeys } from '../../../api/labels.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { resources } from '../../../kube/index.ts';
import type { World } from './world.ts';

/** What people ask of jobs, and what they see of them. */
export function asking(world: () => World) {
  const jobs = (name: string) => world().get(name)?.status?.jobs;
  const annotate = (name: string, key: string, value: string): void => {
    const vc = world().get(name) as VirtualCluster;
    const annotations = { ...vc.metadata.annotations, [key]: value };
    world().superCluster.put(resources.virtualClusters, { ...vc, metadata: { ...vc.metadata, annotations } });
  };
  const cancel = (name: string): void =>
    annotate(name, annotationKeys.cancelJob, jobs(name)?.current?.id ?? '');
  /** The driver does not come to an end until it is given up. */
  const stall = (): { release: () => void } => {
    const gate = Promise.withResolvers<void>();
    world().driver.beforeEnsure = (_plan, { signal }) => {
      signal.addEventListener('abort', () => gate.reject(signal.reason), { once: true });
      return gate.promise;
    };
    return { release: () => gate.resolve() };
  };
  return { annotate, cancel, jobs, stall };
}
