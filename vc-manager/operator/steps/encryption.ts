import {
  advancedRotation,
  type EncryptionRotation,
  type EncryptionState,
  rewriteStart,
} from '../../pki/index.ts';
import { recordProgress, recordRotated, rotationRequest } from '../jobs.ts';
import type { Services } from '../services.ts';
import type { Step } from '../step-runner.ts';
import type { Tenant } from '../tenant.ts';
import { writeEncryption } from './certificates.ts';
import { ensureControlPlane } from './control-plane.ts';
import { rewriteSecrets } from './rewrite-secrets.ts';

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
        // The request counts as followed when the old key is gone from the PKI Secret: the roll is wanted from then on.
        recordRotated(tenant, state.followed);
        if (state.current === 'identity') refuseRotation(tenant);
        return;
      }
      recordProgress(tenant, stages[rotation.stage]);
      await tenant.components;
      if (rotation.stage === 'write' && !(await rewrite(tenant, services, state, rotation))) return;
      await writeEncryption(tenant, services, advancedRotation(state));
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

/** Its template encrypts nothing, so there is no key to rotate. */
function refuseRotation(tenant: Tenant): void {
  const request = rotationRequest(tenant.vc);
  if (request === undefined) return;
  const { metadata } = tenant.required(tenant.choice, 'template').template;
  recordRotated(tenant, request);
  tenant.unfinished = {
    failing: `there is no key to rotate: the template ${metadata.name} encrypts nothing`,
    againAfterMs: 1_000,
  };
}

/** The longest pause between two slices: a rotation that takes long gives way to other tenants. */
const longestPauseMs = 5 * 60_000;

/** Whether all Secrets are rewritten; if not, the next reconcile goes on where this one has ended. */
async function rewrite(
  tenant: Tenant,
  services: Services,
  state: EncryptionState,
  rotation: EncryptionRotation,
): Promise<boolean> {
  const { client, signal, clock } = tenant;
  const next = await rewriteSecrets(client, rotation.position ?? rewriteStart, { clock, signal });
  if (next === undefined) return true;
  await writeEncryption(tenant, services, { ...state, rotation: { ...rotation, position: next } });
  const { blockedBy, done, slices, why } = next;
  tenant.unfinished = {
    progress: `rewriting Secrets with the new key: ${done} done`,
    ...(blockedBy === undefined
      ? {}
      : {
          // It goes on when the tenant is awake again.
          maySleep: true,
          failing:
            `${blockedBy} Secrets cannot be written with the new key, so the old one stays; the first is ${why}. ` +
            'Mend what refuses it, most likely a webhook or a policy of the tenant; it is tried again by itself',
        }),
    againAfterMs: Math.min(slices * 5_000, longestPauseMs),
  };
  return false;
}
