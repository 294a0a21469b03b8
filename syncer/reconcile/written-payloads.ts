import type { KubeObject } from '../../kube/index.ts';
import { type PayloadSummary, withSummary } from '../kinds/payload.ts';
import { BoundedMap } from './bounded-map.ts';

interface Written {
  readonly uid: string | undefined;
  readonly resourceVersion: string | undefined;
  readonly summary: PayloadSummary;
}

/**
 * What we have written into the copies of one tenant, until the cache shows them: the watch has their metadata alone. One
 * that is forgotten is read once more.
 */
export class WrittenPayloads {
  /** By key id. */
  readonly #written = new BoundedMap<Written>(5_000);

  /** `answer`: what the server has said that the copy is now. */
  add(id: string, answer: KubeObject, summary: PayloadSummary): void {
    const { uid, resourceVersion } = answer.metadata;
    this.#written.set(id, { uid, resourceVersion, summary });
  }

  /** Has a copy, as the cache shows it, carry the summary of what we have written, if it is that. */
  recognize(id: string, superObject: KubeObject): void {
    const written = this.#written.get(id);
    if (written === undefined) return;
    const { uid, resourceVersion } = superObject.metadata;
    if (uid !== written.uid || resourceVersion !== written.resourceVersion) return;
    withSummary(superObject, written.summary, 'written');
    this.#written.delete(id);
  }
}
