import { clusterVariables } from '../cluster-variables.ts';
import { mapContainers } from '../containers.ts';
import type { PodStep } from '../translate.ts';
import type { Container } from '../types.ts';
import { replacedNames, sourcedNames } from '../variable-names.ts';

/**
 * Sync rules 8 and 9: kubelet would tell of the super cluster's API server and the super namespace's
 * Services. It is told not to of the latter, and both are written here as T's kubelet would tell of them.
 */
export const environment: PodStep = (spec, pod, context) => {
  const variables = clusterVariables(pod, context);
  const { namespace } = pod.metadata;
  return mapContainers({ ...spec, enableServiceLinks: false }, (container) =>
    withVariables(container, variables, sourcedNames(container, namespace, context)),
  );
};

/**
 * They come first, so that the container's own entries replace them and can ask for their values. To
 * kubelet an entry also comes before any source: what a source defines must not be written.
 */
function withVariables(
  container: Container,
  variables: ReadonlyMap<string, string>,
  sourced: ReadonlySet<string>,
): Container {
  const own = container.env ?? [];
  const replaced = replacedNames(own);
  const written = [...variables]
    .filter(([name]) => !sourced.has(name) && !replaced.has(name))
    .map(([name, value]) => ({ name, value }));
  return written.length === 0 ? container : { ...container, env: [...written, ...own] };
}
