import { isNotFound, type KubeObject, resources } from '../../../kube/index.ts';
import { advancedRotation } from '../../pki/index.ts';
import { recordProgress, recordRotated, rotationRequest } from '../jobs.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { writeEncryption } from './certificates.ts';
import { ensureControlPlane } from './control-plane.ts';

/**
 * Brings a rotation of the encryption key to its end. Each stage is stored before an API server learns of it, and the
 * next one begins when all of them have taken it up: at no time does one of them meet a value that it cannot read. A
 * manager that is killed leaves a stage, from which the next reconcile goes on; what is rewritten twice costs a read.
 */
export const encryption: Step = {
  name: 'encryption',
  doing: 'Changing the key that Secrets are encrypted with',
  condition: 'DatastoreReady',
  async run(tenant, services) {
    for (;;) {
      const state = tenant.required(tenant.encryption, 'encryption key');
      const { rotation } = state;
      if (rotation === undefined) {
        // Its template encrypts nothing: there is no key to rotate.
        if (state.current === 'identity') recordRotated(tenant, rotationRequest(tenant.vc));
        return;
      }
      recordProgress(tenant, stages[rotation.stage]);
      await tenant.components;
      if (rotation.stage === 'write') await rewriteSecrets(tenant);
      await writeEncryption(tenant, services, advancedRotation(state));
      // The request counts as followed when the old key is gone from the PKI Secret: the roll is wanted from then on.
      if (rotation.stage === 'write') recordRotated(tenant, rotation.request);
      await tenant.status.flush();
      await roll(tenant, services);
    }
  },
};

const stages = {
  distribute: 'API servers learn to read what is encrypted with the new key',
  write: 'API servers write with the new key',
} as const;

async function roll(tenant: Tenant, services: Services): Promise<void> {
  await ensureControlPlane(tenant, services);
  await tenant.components;
}

const pageSize = 500;
/** Calls in flight: the tenant's own clients have their limits beside it. */
const parallel = 8;

/**
 * Has the API server write every Secret anew: an empty patch changes nothing, but a value that was encrypted with
 * another key than the first one is stored again.
 */
async function rewriteSecrets(tenant: Tenant): Promise<void> {
  const { client, signal } = tenant;
  const { items } = await client.list(resources.secrets, { metadataOnly: true, pageSize, signal });
  for (let from = 0; from < items.length; from += pageSize) {
    recordProgress(tenant, `rewriting Secrets with the new key: ${from} of ${items.length}`);
    await tenant.status.flush();
    const queue = items.slice(from, from + pageSize).values();
    await Promise.all(
      Array.from({ length: parallel }, async () => {
        // The workers share one iterator: each Secret goes to one of them.
        for (const secret of queue) await rewrite(tenant, secret);
      }),
    );
  }
}

async function rewrite({ client, signal }: Tenant, { metadata }: KubeObject): Promise<void> {
  const ref = { namespace: metadata.namespace, name: metadata.name ?? '' };
  try {
    await client.patch(resources.secrets, ref, {}, { type: 'merge', signal });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
