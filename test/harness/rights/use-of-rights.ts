import {
  type PolicyRule,
  type ProgramName,
  programs,
  type Rights,
  userOf,
} from '../../../vc-manager/rights.ts';
import type { Asked } from './audit-log.ts';

const systemNamespace = 'skerry-system';

interface Grant {
  readonly program: ProgramName;
  readonly user: string;
  /** `driver`: in all namespaces too, and only for control planes that run in the super cluster. */
  readonly where: 'cluster' | 'namespace' | 'driver';
  readonly apiGroup: string;
  readonly resource: string;
  readonly verb: string;
  readonly names: readonly string[] | undefined;
}

export interface UseOptions {
  /** The user of a program; that of the local stack by default. */
  userOf?: (program: ProgramName) => string;
  /** Whether manager and control planes run in the super cluster: then there are rights more. */
  withKubernetesDriver?: boolean;
}

/** Compares what manager and syncer may do with what they did. */
export class UseOfRights {
  /** Each single right, and whether it was of use. */
  readonly #grants: { readonly grant: Grant; used: boolean }[] = [];
  readonly #refused = new Map<string, number>();
  readonly #seen = new Set<string>();
  readonly #users = new Set<string>();
  /** Of requests for no resource. */
  readonly #allowedPaths = new Set<string>();

  readonly #userOf: (program: ProgramName) => string;

  constructor(
    rights: Readonly<Record<ProgramName, Rights>>,
    { userOf: userOfProgram = userOf, withKubernetesDriver = false }: UseOptions = {},
  ) {
    this.#userOf = userOfProgram;
    for (const program of programs) {
      const { cluster, namespace, kubernetesDriver = [] } = rights[program];
      for (const rule of cluster) this.#add(program, 'cluster', rule);
      for (const rule of namespace) this.#add(program, 'namespace', rule);
      if (withKubernetesDriver) for (const rule of kubernetesDriver) this.#add(program, 'driver', rule);
    }
  }

  observe({ user, verb, hasCreated, resource, path, isAllowed }: Asked): void {
    this.#users.add(user);
    if (!isAllowed) {
      // An API server that has just started refuses what its roles grant, as it does not know them yet.
      if (resource !== undefined && this.#isGranted(user, verb, resource)) return;
      const where = resource?.namespace === undefined ? '' : ' in a namespace';
      const what =
        resource === undefined
          ? withoutQuery(path)
          : `${resource.resource}${resource.apiGroup && `.${resource.apiGroup}`}${where}`;
      const line = `${user} may not ${verb} ${what}`;
      this.#refused.set(line, (this.#refused.get(line) ?? 0) + 1);
      return;
    }
    if (resource === undefined) {
      this.#allowedPaths.add(`${user} may not ${verb} ${withoutQuery(path)}`);
      return;
    }
    const isSystem = resource.namespace === systemNamespace;
    // A request of a kind that was seen before teaches nothing, and there are very many.
    const seen = [
      user,
      verb,
      hasCreated,
      resource.apiGroup,
      resource.resource,
      isSystem,
      isSystem && resource.name,
    ].join();
    if (this.#seen.has(seen) && !isSystem) return;
    this.#seen.add(seen);
    for (const each of this.#grants) {
      each.used ||=
        covers(each.grant, user, verb, resource) ||
        (hasCreated && covers(each.grant, user, 'create', resource));
    }
  }

  #isGranted(user: string, verb: string, resource: NonNullable<Asked['resource']>): boolean {
    return this.#grants.some(({ grant }) => covers(grant, user, verb, resource));
  }

  /** What they asked for and may not, and how often. */
  get refused(): string[] {
    return [...this.#refused]
      .filter(([line]) => !this.#allowedPaths.has(line))
      .map(([line, times]) => `${line} (${times} times)`)
      .sort();
  }

  /** Whether it has seen requests of both. */
  get isTelling(): boolean {
    return programs.every((program) => this.#users.has(this.#userOf(program)));
  }

  /** `syncer: delete pods`. */
  get unused(): string[] {
    return this.#grants.filter(({ used }) => !used).map(({ grant }) => inWords(grant));
  }

  /** Of those, what is granted for the sake of control planes that run in the super cluster. */
  get unusedByDriver(): string[] {
    return this.#grants
      .filter(({ grant, used }) => grant.where === 'driver' && !used)
      .map(({ grant }) => inWords(grant));
  }

  #add(program: ProgramName, where: Grant['where'], rule: PolicyRule): void {
    for (const apiGroup of rule.apiGroups)
      for (const resource of rule.resources)
        for (const verb of rule.verbs) {
          const user = this.#userOf(program);
          const grant = { program, user, where, apiGroup, resource, verb, names: rule.resourceNames };
          this.#grants.push({ grant, used: false });
        }
  }
}

function covers(grant: Grant, user: string, verb: string, asked: NonNullable<Asked['resource']>): boolean {
  const { where, apiGroup, resource, names } = grant;
  return (
    user === grant.user &&
    verb === grant.verb &&
    apiGroup === asked.apiGroup &&
    resource === asked.resource &&
    (where !== 'namespace' || asked.namespace === systemNamespace) &&
    (names === undefined || (asked.name !== undefined && names.includes(asked.name)))
  );
}

function withoutQuery(path: string): string {
  return path.split('?')[0] ?? path;
}

function inWords({ program, where, apiGroup, resource, verb }: Grant): string {
  const group = apiGroup === '' ? '' : `.${apiGroup}`;
  return `${program}: ${verb} ${resource}${group}${where === 'namespace' ? ` in ${systemNamespace}` : ''}`;
}
