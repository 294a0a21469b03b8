import { labelKeys } from '../../../api/labels.ts';
import { isNotFound, resources } from '../../../kube/index.ts';
import { isOurs } from '../secrets.ts';
import type { Step } from '../steps/index.ts';

/** Its Secrets, but none that merely bears the label. */
export const removeSecrets: Step = {
  name: 'remove-secrets',
  doing: 'Deleting its Secrets',
  async run(tenant, { client }) {
    const { signal, ref } = tenant;
    const labelSelector = `${labelKeys.virtualCluster}=${ref.name}`;
    const { items } = await client.list(resources.secrets, {
      namespace: ref.namespace,
      labelSelector,
      signal,
    });
    for (const secret of items.filter((each) => isOurs(tenant, each))) {
      const { name = '', uid } = secret.metadata;
      try {
        const precondition = uid === undefined ? {} : { uid };
        await client.delete(
          resources.secrets,
          { namespace: ref.namespace, name },
          { ...precondition, signal },
        );
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
  },
};
