import type { KubeObject } from '../kube/index.ts';
import { labelKeys } from './labels.ts';
import { group, version } from './names.ts';

const name = 'deletion-protection.skerry.dev';
const metadata = { name, labels: { [labelKeys.managedBy]: 'skerry' } };

/**
 * Has the super cluster refuse to delete a VirtualCluster with `spec.deletionProtection`, for any user: a deletion
 * cannot be taken back once Kubernetes has accepted it. Namespaces with such a VirtualCluster stay as well.
 */
export const deletionProtectionPolicy = {
  metadata,
  spec: {
    failurePolicy: 'Fail',
    matchConstraints: {
      matchPolicy: 'Equivalent',
      namespaceSelector: {},
      objectSelector: {},
      resourceRules: [
        {
          apiGroups: [group],
          apiVersions: [version],
          operations: ['DELETE'],
          resources: ['virtualclusters'],
          scope: '*',
        },
      ],
    },
    validations: [
      {
        expression:
          '!has(oldObject.spec) || !has(oldObject.spec.deletionProtection) || !oldObject.spec.deletionProtection',
        message: 'spec.deletionProtection is set: set it to false first',
        reason: 'Forbidden',
      },
    ],
  },
} satisfies KubeObject;

export const deletionProtectionBinding = {
  metadata,
  spec: { policyName: name, validationActions: ['Deny'] },
} satisfies KubeObject;
