/** What the lists of a policy mean: the manager compares lists by this, the syncer what pods ask for. */

const nodeRolePrefix = 'node-role.kubernetes.io/';

/** Taints by which distributions keep the nodes of a control plane to themselves, beside `node-role.kubernetes.io/`. */
const controlPlaneTaints = ['CriticalAddonsOnly', 'k3s-controlplane'];

/**
 * Whether a list of keys of taints has a key, or all keys with a prefix, as in `example.com/`. `*` stands for all but
 * those of control planes.
 */
export function isTaintKeyListed(allowed: readonly string[], key: string): boolean {
  return allowed.some((each) => {
    if (each === key) return true;
    if (each === '*') return !key.startsWith(nodeRolePrefix) && !controlPlaneTaints.includes(key);
    return each.endsWith('/') && key.startsWith(each);
  });
}

const defaultRegistry = 'docker.io';
const maxReferenceLength = 1_024;
const hostShape = /^[a-z0-9][-a-z0-9.]*(?::[0-9]{1,5})?$|^\[[0-9a-f:]+\](?::[0-9]{1,5})?$/;
const componentShape = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const tagShape = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const digestShape = /^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[0-9a-fA-F]{32,128}$/i;

/**
 * Registry and path of an image, as in `docker.io/library/nginx`, by the grammar of references
 * (https://github.com/distribution/reference); undefined for what is none.
 */
export function repositoryOf(image: unknown): string | undefined {
  if (typeof image !== 'string' || image.length > maxReferenceLength) return undefined;
  const at = image.indexOf('@');
  if (at >= 0 && !digestShape.test(image.slice(at + 1))) return undefined;
  const named = at < 0 ? image : image.slice(0, at);
  const colon = named.indexOf(':', named.lastIndexOf('/') + 1);
  if (colon >= 0 && !tagShape.test(named.slice(colon + 1))) return undefined;
  const [first = '', ...rest] = (colon < 0 ? named : named.slice(0, colon)).split('/');
  const isHost = rest.length > 0 && (/[.:A-Z]/.test(first) || first === 'localhost');
  const path = isHost ? rest : [first, ...rest];
  if (!path.every((component) => componentShape.test(component))) return undefined;
  if (!isHost) return [defaultRegistry, ...(path.length === 1 ? ['library'] : []), ...path].join('/');
  const host = first.toLowerCase();
  if (!hostShape.test(host)) return undefined;
  const isDefault = host === defaultRegistry || host === `index.${defaultRegistry}`;
  if (isDefault) return repositoryOf(path.join('/'));
  return [host, ...path].join('/');
}

/** Whether a repository, or a registry with the beginning of a path, lies within one of those allowed. */
export function isRepositoryListed(allowed: readonly string[], repository: string): boolean {
  const wanted = withLowerHost(repository);
  return allowed.some((each) => {
    const listed = withLowerHost(each);
    return wanted === listed || wanted.startsWith(`${listed}/`);
  });
}

function withLowerHost(repository: string): string {
  const slash = repository.indexOf('/');
  return slash < 0
    ? repository.toLowerCase()
    : repository.slice(0, slash).toLowerCase() + repository.slice(slash);
}

/** Whether a port, or all ports of a range as in `8000-8099`, lie within one of the ranges allowed. */
export function isPortRangeListed(allowed: readonly string[], range: string): boolean {
  const [from, to] = portsOf(range);
  return allowed.some((each) => {
    const [least, most] = portsOf(each);
    return least <= from && from <= to && to <= most;
  });
}

function portsOf(range: string): readonly [number, number] {
  const [from = '', to = from] = range.split('-');
  return [Number(from), Number(to)];
}
