import type { KubeObject, Resource } from '../../../kube/index.ts';

/** A CustomResourceDefinition as far as it is read here. Its schemas are not looked into. */
export interface Definition extends KubeObject {
  spec?: {
    group?: string;
    scope?: 'Namespaced' | 'Cluster';
    names?: { plural?: string; kind?: string; [field: string]: unknown };
    versions?: readonly DefinedVersion[];
    conversion?: { strategy?: string; [field: string]: unknown };
    [field: string]: unknown;
  };
  status?: {
    conditions?: readonly { type?: string; status?: string }[];
    storedVersions?: readonly string[];
    [field: string]: unknown;
  };
}

export interface DefinedVersion {
  readonly name: string;
  readonly served?: boolean;
  readonly storage?: boolean;
  readonly subresources?: { readonly status?: object };
  /** In a cache, instead of everything that makes up the version: the same for the same content. */
  readonly digest?: string;
  readonly [field: string]: unknown;
}

export function versionsOf(definition: Definition): readonly DefinedVersion[] {
  return definition.spec?.versions ?? [];
}

export function servedVersion(definition: Definition, name: string | undefined): DefinedVersion | undefined {
  return versionsOf(definition).find((version) => version.name === name && version.served === true);
}

export function storageVersion(definition: Definition): DefinedVersion | undefined {
  return versionsOf(definition).find(({ storage }) => storage === true);
}

/** The storage version if it is served, else the most mature one that is: `v2` before `v1` before `v1beta1`. */
export function preferredVersion(versions: readonly DefinedVersion[]): DefinedVersion | undefined {
  const served = versions.filter((version) => version.served === true);
  return (
    served.find(({ storage }) => storage === true) ??
    served.toSorted((a, b) => compareVersions(b.name, a.name))[0]
  );
}

/** The API by which the objects of a definition are reached in one of its versions. */
export function resourceOf(definition: Definition, version: string): Resource | undefined {
  const { group, names, scope } = definition.spec ?? {};
  if (group === undefined || names?.plural === undefined || names.kind === undefined) return undefined;
  return { group, version, plural: names.plural, kind: names.kind, namespaced: scope === 'Namespaced' };
}

/** Whether the server answers for objects of this definition, and will go on doing so. */
export function isEstablished(definition: Definition): boolean {
  return (
    definition.metadata.deletionTimestamp === undefined &&
    definition.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') ===
      true
  );
}

/** Kubernetes' order of maturity: GA over beta over alpha, then by number; names of another shape come first. */
function compareVersions(a: string, b: string): number {
  const one = maturity(a);
  const other = maturity(b);
  for (const [index, value] of one.entries()) {
    const difference = value - (other[index] as number);
    if (difference !== 0) return difference;
  }
  return a < b ? 1 : -1;
}

function maturity(name: string): readonly [stage: number, major: number, minor: number] {
  const match = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(name);
  if (match === null) return [0, 0, 0];
  const [, major, stage, minor] = match;
  return [stage === undefined ? 3 : stage === 'beta' ? 2 : 1, Number(major), Number(minor ?? 0)];
}
