import { apiVersionOf, type KubeObject, resources } from '../../../kube/index.ts';
import { superMetadata } from '../../mapping/index.ts';
import type { SyncContext } from '../context.ts';
import { podMetadataOptions } from './metadata.ts';
import { resourcesAsked, resourcesMark } from './resize.ts';
import { interPodAffinity } from './steps/affinity.ts';
import { dns } from './steps/dns.ts';
import { downwardApi } from './steps/downward-api.ts';
import { environment } from './steps/environment.ts';
import { hostName } from './steps/host-name.ts';
import { nodeNames } from './steps/node-names.ts';
import { placement } from './steps/placement.ts';
import { pool } from './steps/pool.ts';
import { rootCa } from './steps/root-ca.ts';
import { scheduling } from './steps/scheduling.ts';
import { tokens } from './steps/tokens.ts';
import { volumes } from './steps/volumes.ts';
import type { Container, Pod, PodSpec } from './types.ts';

/**
 * One translation of a pod's spec on its way down. Gives back a new spec, or the one it was given when
 * there is nothing to translate; never changes it. `pod` is T as it is.
 */
export type PodStep = (spec: PodSpec, pod: Pod, context: SyncContext) => PodSpec;

/** In this order: each sees what those before it have made. */
const steps: readonly PodStep[] = [
  placement,
  tokens,
  volumes,
  // Looks ConfigMaps up by T's names, one of which is another in S.
  environment,
  rootCa,
  downwardApi,
  dns,
  hostName,
  nodeNames,
  pool,
  scheduling,
  interPodAffinity,
];

/** S as it is created for a pod of the tenant (sync rules 5 to 15). */
export function toSuperPod(pod: Pod, context: SyncContext): KubeObject {
  const metadata = superMetadata(pod, context, podMetadataOptions(context.tenant));
  const asked = resourcesAsked(pod.spec ?? {});
  if (asked !== undefined) metadata.annotations = { ...metadata.annotations, [resourcesMark]: asked };
  return {
    apiVersion: apiVersionOf(resources.pods),
    kind: resources.pods.kind,
    metadata,
    spec: steps.reduce((spec, step) => step(spec, pod, context), pod.spec ?? {}),
  };
}

/** Containers that are added to S while it runs, with all that their place in a pod's spec would have made of them. */
export function translatedContainers(containers: Container[], pod: Pod, context: SyncContext): Container[] {
  const steps = [environment, rootCa, downwardApi];
  const spec = steps.reduce<PodSpec>((spec, step) => step(spec, pod, context), { containers });
  return spec.containers ?? [];
}
