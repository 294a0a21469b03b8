import { describe, expect, it } from 'vitest';
import { networkPoliciesAreEnforced } from './network-policy-engine.ts';

const { signal } = new AbortController();

/** A super cluster that offers these API groups. */
function offering(...groups: string[]) {
  const asked: string[] = [];
  return {
    asked,
    raw: (method: string, path: string) => {
      asked.push(`${method} ${path}`);
      return Promise.resolve({ groups: groups.map((name) => ({ name })) });
    },
  };
}

describe('whether the super cluster enforces network policies', () => {
  it('is what the operator says, and nobody is asked', async () => {
    const calico = offering('crd.projectcalico.org');
    expect(await networkPoliciesAreEnforced('unenforced', calico, signal)).toBe(false);
    expect(await networkPoliciesAreEnforced('enforced', offering(), signal)).toBe(true);
    expect(calico.asked).toEqual([]);
  });

  it('shows in the API groups that known engines bring along', async () => {
    for (const group of ['crd.projectcalico.org', 'cilium.io', 'crd.antrea.io', 'k8s.ovn.org']) {
      expect(await networkPoliciesAreEnforced('auto', offering('apps', group), signal)).toBe(true);
    }
    const plain = offering('apps', 'networking.k8s.io', 'policy.networking.k8s.io');
    expect(await networkPoliciesAreEnforced('auto', plain, signal)).toBe(false);
    expect(plain.asked).toEqual(['GET /apis']);
  });
});
