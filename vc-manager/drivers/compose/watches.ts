import type { Clock } from '../../../kube/index.ts';
import type { ComponentListener } from '../driver.ts';
import { ComponentWatch } from './component-watch.ts';
import type { EngineEvent } from './engine-events.ts';

export interface WatchesOptions {
  clock: Clock;
  emit: ComponentListener;
  tail: (id: string, component: string) => Promise<string[]>;
}

/** One watch for each component that a driver has made sure of; what else the engine runs is nobody's business here. */
export class Watches {
  readonly #o: WatchesOptions;
  readonly #byId = new Map<string, Map<string, ComponentWatch>>();

  constructor(options: WatchesOptions) {
    this.#o = options;
  }

  find(id: string, component: string): ComponentWatch | undefined {
    return this.#byId.get(id)?.get(component);
  }

  /** Makes it where there is none. */
  get(id: string, component: string): ComponentWatch {
    const watches = this.#byId.get(id) ?? new Map<string, ComponentWatch>();
    this.#byId.set(id, watches);
    let watch = watches.get(component);
    if (watch === undefined) {
      const { clock, emit, tail } = this.#o;
      watch = new ComponentWatch({
        id,
        component,
        clock,
        emit: (what) => emit(id, component, what),
        tail: () => tail(id, component),
      });
      watches.set(component, watch);
    }
    return watch;
  }

  onEvent(event: EngineEvent): void {
    this.find(event.id, event.component)?.onEvent(event);
  }

  /** Looks away from one, and forgets what it knew. */
  end(id: string, component: string): void {
    const watches = this.#byId.get(id);
    watches?.get(component)?.end();
    watches?.delete(component);
    if (watches?.size === 0) this.#byId.delete(id);
  }

  close(): void {
    for (const watches of this.#byId.values()) for (const watch of watches.values()) watch.end();
    this.#byId.clear();
  }
}
