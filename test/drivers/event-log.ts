import type { ComponentListener, ControlPlaneDriver } from '../../vc-manager/drivers/index.ts';

export interface ToldEvent {
  component: string;
  what: Parameters<ComponentListener>[2];
}

/** What a driver tells of one control plane, in order. */
export class EventLog {
  readonly #events: ToldEvent[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #stop: () => void;

  constructor(driver: Pick<ControlPlaneDriver, 'watch'>, id: string) {
    this.#stop = driver.watch((of, component, what) => {
      if (of !== id) return;
      this.#events.push({ component, what });
      for (const look of this.#waiting) look();
    });
  }

  /** `component what`, such as `kube-apiserver ready`. */
  get told(): string[] {
    return this.#events.map(({ component, what }) => `${component} ${what}`);
  }

  /** Until all of them have been told, in this order, whatever else was told between them. */
  async until(timeoutMs: number, ...wanted: string[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const look = (): void => {
      if (isSubsequence(wanted, this.told)) resolve();
    };
    const timer = setTimeout(
      () => reject(new Error(`waited in vain for ${wanted.join(', ')}; told: ${this.told.join(', ')}`)),
      timeoutMs,
    );
    this.#waiting.add(look);
    look();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
    }
  }

  close(): void {
    this.#stop();
  }
}

function isSubsequence(wanted: readonly string[], told: readonly string[]): boolean {
  let next = 0;
  for (const event of told) if (event === wanted[next]) next++;
  return next === wanted.length;
}
