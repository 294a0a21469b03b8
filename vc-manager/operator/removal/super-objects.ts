import { labelKeys } from '../../../api/labels.ts';
import {
  isConflict,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { NotYet } from '../errors.ts';
import type { Step } from '../steps/index.ts';
import type { Tenant } from '../tenant.ts';

const pollMs = 500;

/**
 * All that the tenant has in the super cluster, found by the label with its UID and by nothing else.
 * Namespaces first, with everything in them; a volume goes when no claim of theirs holds it any more.
 */
export const superNamespaces: Step = {
  name: 'super-namespaces',
  doing: 'Deleting namespaces in the super cluster',
  async run(tenant, { client }) {
    await removeLabelled(tenant, client, resources.namespaces);
  },
};

export const superLeftovers: Step = {
  name: 'super-leftovers',
  doing: 'Deleting volumes in the super cluster',
  async run(tenant, { client }) {
    await removeLabelled(tenant, client, resources.persistentVolumes);
  },
};

/** Deletes, and throws NotYet until nothing is left. */
async function removeLabelled(tenant: Tenant, client: KubeClient, resource: Resource): Promise<void> {
  const { signal, uid } = tenant;
  const { items } = await client.list(resource, { labelSelector: `${labelKeys.tenant}=${uid}`, signal });
  for (const object of items) {
    if (object.metadata.deletionTimestamp === undefined) await remove(tenant, client, resource, object);
  }
  if (items.length === 0) return;
  const names = items.slice(0, 3).map((object) => object.metadata.name);
  const more = items.length > names.length ? ` and ${items.length - names.length} more` : '';
  throw new NotYet(
    `Waiting until ${resource.plural} are gone: ${names.join(', ')}${more}${why(items)}`,
    pollMs,
  );
}

async function remove(
  tenant: Tenant,
  client: KubeClient,
  resource: Resource,
  object: KubeObject,
): Promise<void> {
  const { name = '', uid } = object.metadata;
  try {
    const precondition = uid === undefined ? {} : { uid };
    await client.delete(
      resource,
      { name },
      { ...precondition, signal: tenant.signal, propagationPolicy: 'Background' },
    );
  } catch (error) {
    // Gone, or another object by now: the next look tells.
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/** What the server says about a namespace that does not go. */
function why(items: readonly KubeObject[]): string {
  for (const { status } of items as (KubeObject & {
    status?: { conditions?: { status: string; message?: string }[] };
  })[]) {
    const stuck = status?.conditions?.find((condition) => condition.status === 'True');
    if (stuck?.message !== undefined) return `. ${stuck.message}`;
  }
  return '';
}
