import { isNotFound, type KubeClient, resources } from '../../kube/index.ts';
import { SharedCheck } from './shared-check.ts';

/** Knows which server a side must be: the UID of its `kube-system` Namespace (sync rule 0 A). */
export class IdentityGuard {
  readonly #client: KubeClient;
  #expectedUid: string | undefined;
  #distrusted: string | undefined;
  readonly #shared = new SharedCheck(() => this.#check());

  constructor(client: KubeClient, expectedUid: string | undefined) {
    this.#client = client;
    this.#expectedUid = expectedUid;
  }

  /** `undefined` until the first server was seen, where none was given. */
  get expectedUid(): string | undefined {
    return this.#expectedUid;
  }

  /** Why the server is not believed although its name is right. */
  get distrusted(): string | undefined {
    return this.#distrusted;
  }

  /** The operator says that the server with this identity is the right one. */
  accept(uid: string): void {
    this.#expectedUid = uid;
  }

  /** The server has shown what it cannot have shown, e.g. its own past: from now on it does not pass. */
  distrust(reason: string): void {
    this.#distrusted = reason;
  }

  /** Whether the server is still the one it should be. Throws what the client throws when it cannot tell. */
  async verify(): Promise<boolean> {
    return this.#distrusted === undefined && this.#shared.run();
  }

  async #check(): Promise<boolean> {
    const uid = await this.#currentUid();
    if (this.#expectedUid === undefined && uid !== undefined) this.#expectedUid = uid;
    return uid !== undefined && uid === this.#expectedUid && this.#distrusted === undefined;
  }

  async #currentUid(): Promise<string | undefined> {
    try {
      const namespace = await this.#client.get(resources.namespaces, { name: 'kube-system' });
      return namespace.metadata.uid;
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
}
