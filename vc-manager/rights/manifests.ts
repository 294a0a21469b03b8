import type { KubeObject } from '../../kube/index.ts';
import type { ProgramName, Rights } from './rights.ts';

const rbac = 'rbac.authorization.k8s.io';
/** Label of ClusterRoles that the syncer has too: what an operator lets it do with custom resources. */
export const aggregateLabel = 'skerry.dev/aggregate-to-syncer';

export interface RightsOptions {
  program: ProgramName;
  rights: Rights;
  /** Skerry's own. */
  namespace: string;
  labels: Record<string, string>;
}

/** The user of the super cluster, and the name of the roles, of each program in the local stack. */
export function userOf(program: ProgramName): string {
  return `skerry-${program}`;
}

/** ClusterRole, Role and their bindings to the program's user. */
export function rightsManifests({ program, rights, namespace, labels }: RightsOptions): KubeObject[] {
  const name = userOf(program);
  const subjects = [{ apiGroup: rbac, kind: 'User', name }];
  const bound = (
    kind: string,
    roleKind: string,
    metadata: KubeObject['metadata'],
    role = name,
  ): KubeObject => ({
    apiVersion: `${rbac}/v1`,
    kind,
    metadata: { ...metadata, labels },
    roleRef: { apiGroup: rbac, kind: roleKind, name: role },
    subjects,
  });
  const role = (kind: string, metadata: KubeObject['metadata'], rules: object): KubeObject => ({
    apiVersion: `${rbac}/v1`,
    kind,
    metadata: { ...metadata, labels },
    ...rules,
  });
  return [
    role('ClusterRole', { name }, { rules: rights.cluster }),
    bound('ClusterRoleBinding', 'ClusterRole', { name }),
    role('Role', { name, namespace }, { rules: rights.namespace }),
    bound('RoleBinding', 'Role', { name, namespace }),
    ...(program === 'syncer' ? customResources() : []),
  ];

  /** The rules are filled in by the super cluster, from every ClusterRole with the label. */
  function customResources(): KubeObject[] {
    const aggregated = `${name}-custom-resources`;
    const clusterRoleSelectors = [{ matchLabels: { [aggregateLabel]: 'true' } }];
    return [
      role('ClusterRole', { name: aggregated }, { aggregationRule: { clusterRoleSelectors } }),
      bound('ClusterRoleBinding', 'ClusterRole', { name: aggregated }, aggregated),
    ];
  }
}
