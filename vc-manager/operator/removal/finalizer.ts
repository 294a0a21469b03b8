import { finalizer } from '../../../api/labels.ts';
import { isNotFound } from '../../../kube/index.ts';
import { changeMetadata } from '../metadata.ts';
import type { Step } from '../steps/index.ts';

/** The last act: with the finalizer goes the object. */
export const removeFinalizer: Step = {
  name: 'remove-finalizer',
  doing: 'Letting the object go',
  async run(tenant, services) {
    try {
      await changeMetadata(tenant, services, ({ metadata }) => {
        if (!metadata.finalizers?.includes(finalizer)) return undefined;
        return { finalizers: metadata.finalizers.filter((each) => each !== finalizer) };
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    services.claims.forget(tenant.uid);
  },
};
