import { allContainers, type CommonSecurityContext, type Container, type PodSpec } from './types.ts';

/** The containers that a test holds for, as `container "a"` or `containers "a", "b"`; undefined: none. */
export function containersThat(spec: PodSpec, holds: (container: Container) => boolean): string | undefined {
  return named(allContainers(spec).filter(holds));
}

/** Like `containersThat` for what pod and containers have in common in their security contexts. */
export function settersThat(
  spec: PodSpec,
  holds: (securityContext: CommonSecurityContext) => boolean,
): string | undefined {
  const pod = spec.securityContext !== undefined && holds(spec.securityContext) ? 'pod' : undefined;
  const containers = containersThat(
    spec,
    ({ securityContext }) => securityContext !== undefined && holds(securityContext),
  );
  return pod !== undefined && containers !== undefined ? `${pod} and ${containers}` : (pod ?? containers);
}

export function quoted(values: Iterable<string>): string {
  return [...new Set(values)].map((value) => `"${value}"`).join(', ');
}

function named(containers: readonly Container[]): string | undefined {
  if (containers.length === 0) return undefined;
  return `${containers.length === 1 ? 'container' : 'containers'} ${quoted(containers.map(({ name }) => name))}`;
}
