import { messageOf, serverVersion } from '../../../kube/index.ts';
import { OperatorError } from '../errors.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { checkSkew, type VersionChoice, versionChoice } from '../version-choice.ts';

/** Chooses the template and the exact version. */
export const version: Step = {
  name: 'version',
  doing: 'Choosing the Kubernetes version',
  condition: 'APIServerReady',
  async run(tenant, services) {
    const { choice, change, refusal } = await chosen(tenant, services);
    tenant.choice = choice;
    tenant.change = change;
    if (refusal === undefined) tenant.status.dropCondition('VersionCurrent');
    else {
      tenant.notes.push(refusal.message);
      tenant.status.condition('VersionCurrent', 'False', refusal.reason, refusal.message);
    }
    if (tenant.wasStarted) noteSkew(tenant, services, choice.version);
  },
};

/** Before a version counts as too new, the version of the super cluster is read again: it may have been upgraded. */
async function chosen(tenant: Tenant, services: Services): Promise<VersionChoice> {
  const isTooNew = (error: unknown): boolean =>
    error instanceof OperatorError && error.code === 'VersionTooNew';
  try {
    const found = versionChoice(tenant.vc, services);
    if (found.refusal?.reason !== 'VersionTooNew') return found;
  } catch (error) {
    if (!isTooNew(error)) throw error;
  }
  services.superVersion = await serverVersion(services.client, { signal: tenant.signal });
  return versionChoice(tenant.vc, services);
}

/** Warns of a running version that is too new, after a template was edited or the super cluster was replaced. */
function noteSkew(tenant: Tenant, services: Services, running: string): void {
  try {
    checkSkew(running, services);
  } catch (error) {
    tenant.notes.push(`Its version is too new: ${messageOf(error)}`);
  }
}
