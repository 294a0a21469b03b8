import type { VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { authorityState, reachedStage } from '../../pki/index.ts';
import { recordAuthorities } from '../jobs.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { readInternalSecret, writeInternalSecret } from '../tenant-secrets.ts';

/**
 * Waits out the stages of a renewal of the authorities. The step `certificates` begins each of them in the PKI Secret, and
 * the steps between bring it to the control plane and into the kubeconfigs: this one notes when that is done, and has the
 * next reconcile come when the stage has lasted long enough. So a manager that is killed leaves a stage, and how long it
 * lasts counts from when the control plane had taken it up.
 */
export const authorities: Step = {
  name: 'authorities',
  doing: 'Renewing the authorities',
  condition: 'CertificatesReady',
  async run(tenant, services) {
    const { followed, renewal, tokenKey } = tenant.required(tenant.authorities, 'authorities');
    if (tokenKey !== undefined) tenant.status.set({ tokenKey });
    if (renewal === undefined) {
      recordAuthorities(tenant, followed);
      tenant.status.set(({ authorities: _, ...status }) => status);
      return;
    }
    await tenant.components;
    const reachedAt = renewal.reachedAt ?? (await reached(tenant, services));
    const endMs = Date.parse(reachedAt) + renewal.overlapMs;
    const until = new Date(endMs).toISOString();
    tenant.status.set({ authorities: { stage: renewal.stage, until } satisfies Stage });
    const againAfterMs = Math.max(1_000, endMs - services.clock.now());
    tenant.lookAgainMs = Math.min(tenant.lookAgainMs, againAfterMs);
    // Another job that is under way ends without waiting for it.
    if (tenant.vc.status?.jobs?.current?.kind === 'authority-renewal')
      tenant.unfinished ??= { progress: `${doing[renewal.stage]}, until ${until}`, againAfterMs };
  },
};

type Stage = NonNullable<VirtualClusterStatus['authorities']>;

const doing = {
  distribute: 'everything learns to trust the new authorities; the old ones sign',
  overlap: 'the new authorities sign; the old ones are still trusted',
} as const;

async function reached(tenant: Tenant, services: Services): Promise<string> {
  const now = new Date(services.clock.now());
  const stored = (await readInternalSecret(tenant, services, 'pki')) ?? {};
  const data = reachedStage(stored, now);
  if (data !== stored) await writeInternalSecret(tenant, services, 'pki', data);
  const { renewal, tokenKey } = authorityState(data);
  if (tokenKey !== undefined) tenant.status.set({ tokenKey });
  return renewal?.reachedAt ?? now.toISOString();
}
