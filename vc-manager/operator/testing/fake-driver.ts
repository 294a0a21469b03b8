import type { ControlPlanePlan } from '../../control-plane/index.ts';
import type {
  ComponentListener,
  ControlPlaneDriver,
  ControlPlaneObservation,
  EnsureOptions,
} from '../../drivers/index.ts';

/** Carries plans out in memory. */
export class FakeDriver implements ControlPlaneDriver {
  /** Every plan that was ever to be carried out, in order. */
  readonly ensured: ControlPlanePlan[] = [];
  readonly plans = new Map<string, ControlPlanePlan>();
  /** Asked before each; may throw or wait. */
  beforeEnsure: (plan: ControlPlanePlan, options: EnsureOptions) => void | Promise<void> = () => {};
  /** Asked when the first component is ready and the others are not. */
  beforeRest: (plan: ControlPlanePlan, options: EnsureOptions) => void | Promise<void> = () => {};
  beforeRemove: (id: string) => void | Promise<void> = () => {};
  active = 0;
  mostActive = 0;
  readonly #running = new Set<string>();
  readonly #listeners = new Set<ComponentListener>();

  async ensure(plan: ControlPlanePlan, options: EnsureOptions): Promise<void> {
    this.ensured.push(plan);
    this.active += 1;
    this.mostActive = Math.max(this.mostActive, this.active);
    options.onProgress?.('starting kube-apiserver');
    try {
      await this.beforeEnsure(plan, options);
      options.signal.throwIfAborted();
      options.onReady?.(plan.components[0]?.name ?? '');
      await this.beforeRest(plan, options);
      options.signal.throwIfAborted();
      this.plans.set(plan.id, plan);
      this.#running.add(plan.id);
    } finally {
      this.active -= 1;
    }
  }

  async observe(id: string): Promise<ControlPlaneObservation> {
    const state = this.#running.has(id) ? 'running' : 'stopped';
    const components = (this.plans.get(id)?.components ?? []).map(
      ({ name }) => ({ name, state, restarts: 0 }) as const,
    );
    return { id, components };
  }

  watch(listener: ComponentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** As when a component dies. */
  kill(id: string, component: string): void {
    this.#running.delete(id);
    for (const listener of this.#listeners) listener(id, component, 'exited');
  }

  /** As when a component that somebody has given up waiting for comes up after all. */
  becomeReady(id: string, component: string): void {
    for (const listener of this.#listeners) listener(id, component, 'ready');
  }

  async stop(id: string): Promise<void> {
    this.#running.delete(id);
  }

  async remove(id: string): Promise<void> {
    await this.beforeRemove(id);
    this.#running.delete(id);
    this.plans.delete(id);
  }

  async list(): Promise<string[]> {
    return [...this.plans.keys()].sort();
  }

  async *logs(): AsyncGenerator<string> {}
}
