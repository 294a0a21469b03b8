import { execa } from 'execa';
import {
  Connection,
  type ConnectionOptions,
  KubeClient,
  type KubeObject,
  Reflector,
  resources,
  Store,
} from '../../../kube/index.ts';
import type { Tell } from '../build/programs.ts';
import { type NetworkPod, type NetworkPolicy, renderRuleset } from './ruleset.ts';

interface PolicyEngineOptions {
  connection: ConnectionOptions;
  /** First processes of the nodes, by which their network namespaces are entered. */
  nodes: readonly number[];
  tell: Tell;
}

/**
 * Has a cluster's nodes act on NetworkPolicies. As any engine it is a moment behind: of a pod it learns when that has
 * its address, and a connection that was made before lasts.
 */
export class PolicyEngine {
  readonly #o: PolicyEngineOptions;
  readonly #connection: Connection;
  readonly #ending = new AbortController();
  readonly #namespaces = new Store();
  readonly #pods = new Store<NetworkPod>();
  readonly #policies = new Store<NetworkPolicy>();
  readonly #running: Promise<unknown>;
  #applied = renderRuleset({ namespaces: [], pods: [], policies: [] });
  #applying: Promise<void> | undefined;
  #isStale = false;

  constructor(options: PolicyEngineOptions) {
    this.#o = options;
    this.#connection = new Connection(options.connection);
    const client = new KubeClient(this.#connection);
    const reflectors = [
      follow(this.#namespaces, resources.namespaces),
      follow(this.#pods, resources.pods),
      follow(this.#policies, resources.networkPolicies),
    ];
    function follow<T extends KubeObject>(store: Store<T>, resource: typeof resources.pods): Reflector<T> {
      return new Reflector<T>({
        ...{ client, resource, store, cutManagedFields: true },
        onProblem: ({ error }) => console.error(`cannot follow ${resource.plural}:`, error),
      });
    }
    for (const store of [this.#namespaces, this.#pods, this.#policies]) {
      store.subscribe(() => {
        // While a list is taken over, the store is neither the old state nor the new one.
        if (reflectors.every(({ hasSynced }) => hasSynced)) this.#changed();
      });
    }
    this.#running = Promise.all(reflectors.map((reflector) => reflector.run(this.#ending.signal)));
    void Promise.all(reflectors.map((reflector) => reflector.synced(this.#ending.signal))).then(
      () => this.#changed(),
      () => undefined,
    );
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    await this.#applying;
    await this.#connection.close();
  }

  #changed(): void {
    this.#isStale = true;
    this.#applying ??= this.#apply();
  }

  /** What changes meanwhile is taken together into the next turn. */
  async #apply(): Promise<void> {
    await Promise.resolve();
    while (this.#isStale && !this.#ending.signal.aborted) {
      this.#isStale = false;
      const ruleset = renderRuleset({
        namespaces: [...this.#namespaces.list()],
        pods: [...this.#pods.list()],
        policies: [...this.#policies.list()],
      });
      if (ruleset === this.#applied) continue;
      this.#applied = ruleset;
      await Promise.all(this.#o.nodes.map((pid) => this.#load(pid, ruleset)));
    }
    this.#applying = undefined;
  }

  async #load(pid: number, ruleset: string): Promise<void> {
    const { failed, stderr } = await execa('nsenter', ['-t', String(pid), '-n', 'nft', '-f', '-'], {
      input: ruleset,
      reject: false,
    });
    if (failed && !this.#ending.signal.aborted) this.#o.tell(`network policies: ${stderr}\n${ruleset}`);
  }
}
