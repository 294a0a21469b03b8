import { isNotFound, type KubeClient, resources } from '../../kube/index.ts';
import { SharedCheck } from './shared-check.ts';

/**
 * Knows which definition (CustomResourceDefinition) the objects in a tenant's cache were served by. When it is
 * deleted, all of its objects go with it, one DELETED event each, and nobody has meant any of them.
 */
export class DefinitionGuard {
  readonly #check: SharedCheck<boolean>;

  constructor(client: KubeClient, name: string, uid: string) {
    this.#check = new SharedCheck(async () => {
      try {
        const { metadata } = await client.get(resources.customResourceDefinitions, { name });
        return metadata.uid === uid && metadata.deletionTimestamp === undefined;
      } catch (error) {
        if (isNotFound(error)) return false;
        throw error;
      }
    });
  }

  /** Whether the definition is still the same and here to stay. Throws what the client throws when it cannot tell. */
  isIntact(): Promise<boolean> {
    return this.#check.run();
  }
}
