import { labelKeys } from '../../../api/labels.ts';
import { findCondition, ignoreNotFound, resources } from '../../../kube/index.ts';
import { effectivePolicy, limitingPolicy, type PolicyDecision } from '../effective-policy.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';

/** Decides what the tenant may do. Comes first, and is written at once, because a policy may have been tightened. */
export const policy: Step = {
  name: 'policy',
  doing: 'Deciding what the tenant may',
  async run(tenant, services) {
    const ceiling = limitingPolicy(tenant.ref.namespace, services.policies.list());
    const requested = tenant.vc.spec ?? {};
    const isPublishedRuntimeClass = await isPublished(tenant, services, requested.policy?.runtimeClassName);
    const answer = effectivePolicy({ requested, ceiling, isPublishedRuntimeClass });
    tenant.ceiling = ceiling;
    tenant.policy = answer.policy;
    tenant.status.set({ policy: answer.policy });
    reportRestrictions(tenant, answer);
    // For a new VirtualCluster the next steps write the status anyway.
    if (tenant.vc.status?.id !== undefined) await tenant.status.flush();
  },
};

function reportRestrictions(tenant: Tenant, { policy: { ceiling }, restrictions }: PolicyDecision): void {
  const { namespace } = tenant.ref;
  if (restrictions.length === 0) {
    // No condition if nothing was ever cut.
    if (findCondition(tenant.vc.status?.conditions, 'PolicyLimited') === undefined) return;
    const message = ceiling === undefined ? 'The defaults' : `VirtualClusterPolicy ${ceiling}`;
    tenant.status.condition(
      'PolicyLimited',
      'False',
      'AsAsked',
      `${message} cut nothing of what is asked for.`,
    );
    return;
  }
  const [limits, remedy] =
    ceiling === undefined
      ? [
          `No VirtualClusterPolicy selects the namespace ${namespace}, and the defaults limit what is asked for`,
          `Ask for less, or have a VirtualClusterPolicy made for ${namespace}.`,
        ]
      : [
          `VirtualClusterPolicy ${ceiling} limits what is asked for`,
          'Ask for less, or have the policy changed.',
        ];
  tenant.status.condition(
    'PolicyLimited',
    'True',
    'Limited',
    `${limits}: ${restrictions.join('; ')}. ${remedy}`,
  );
}

async function isPublished(tenant: Tenant, { client }: Services, name: string | undefined): Promise<boolean> {
  if (name === undefined) return false;
  const found = await ignoreNotFound(
    client.get(resources.runtimeClasses, { name }, { signal: tenant.signal }),
  );
  return found?.metadata.labels?.[labelKeys.public] === 'true';
}
