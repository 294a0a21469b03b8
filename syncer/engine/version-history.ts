import type { KubeClient, Resource } from '../../kube/index.ts';
import { isOlder } from './resource-version.ts';

/** A server's data is older than what the same server has shown before. */
export interface Regression {
  readonly resource: string;
  readonly shown: string;
  readonly now: string;
}

/**
 * The highest resourceVersion heard of each resource of one server. They are not compared with one another:
 * a server may keep its events elsewhere than the rest.
 */
export class VersionHistory {
  readonly #highest = new Map<string, string>();

  observe(resource: Resource, version: string): void {
    const highest = this.#highest.get(nameOf(resource));
    if (highest === undefined || isOlder(highest, version)) this.#highest.set(nameOf(resource), version);
  }

  /**
   * Whether a list with this version shows the past. A server may answer a list slightly late from its
   * memory, so that an old version is believed only when a consistent read confirms it.
   */
  async regression(
    client: KubeClient,
    resource: Resource,
    listed: string,
    signal: AbortSignal,
  ): Promise<Regression | undefined> {
    // What is heard while the answer is on its way may be newer than the answer.
    const shown = this.#highest.get(nameOf(resource));
    if (shown === undefined || !isOlder(listed, shown)) return undefined;
    const consistent = await client.list(resource, { limit: 1, signal });
    const now = consistent.metadata.resourceVersion ?? '';
    return isOlder(now, shown) ? { resource: resource.plural, shown, now } : undefined;
  }

  /** The server may start anew from whatever it shows next. */
  forget(): void {
    this.#highest.clear();
  }
}

function nameOf({ group, plural }: Resource): string {
  return `${plural}.${group}`;
}
