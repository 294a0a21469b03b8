import type { TenantPolicy } from '../../../api/policy.ts';
import { baselineViolations } from './pod-security-baseline.ts';
import { restrictedViolations } from './pod-security-restricted.ts';
import type { Pod } from './types.ts';

/**
 * What in a pod the Pod Security Standards of Kubernetes 1.36 do not allow at a level, in words; empty
 * when it is allowed. `privileged` allows everything.
 * https://kubernetes.io/docs/concepts/security/pod-security-standards/
 */
export function podSecurityViolations(pod: Pod, level: TenantPolicy['podSecurity']): string[] {
  switch (level) {
    case 'privileged':
      return [];
    case 'baseline':
      return baselineViolations(pod);
    case 'restricted':
      return [...baselineViolations(pod), ...restrictedViolations(pod)];
  }
}
