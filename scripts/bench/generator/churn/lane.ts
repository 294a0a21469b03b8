import type { ChurnKind, ChurnVerb } from './protocol.ts';

/** One thing to do next to an object of one lane. */
export interface Step {
  verb: ChurnVerb;
  kind: ChurnKind;
  name: string;
  /** Which of all objects that this lane has ever had. */
  object: number;
}

/** Out of a hundred. */
const shares: readonly [ChurnKind, number][] = [
  ['pods', 60],
  ['configmaps', 25],
  ['services', 15],
];
const most: Readonly<Record<ChurnKind, number>> = { pods: 4, configmaps: 2, services: 2 };

/** ConfigMaps keep their names, so that pods can use them before and after they were there. */
export function configMapName(lane: number, place: number): string {
  return `churn-${lane}-${place}`;
}

export const configMapsPerLane = most.configmaps;

/**
 * An endless sequence of creates, updates and deletes over a handful of objects, made from random numbers
 * alone: whatever the API server does, the same numbers are the same work.
 */
export class Lane {
  readonly #lane: number;
  readonly #random: () => number;
  readonly #there: Record<ChurnKind, { name: string; object: number; place: number }[]> = {
    pods: [],
    configmaps: [],
    services: [],
  };
  #made = 0;

  constructor(lane: number, random: () => number) {
    this.#lane = lane;
    this.#random = random;
  }

  next(): Step {
    const kind = this.#kind();
    const there = this.#there[kind];
    const verb = this.#verb(there.length, most[kind]);
    if (verb === 'create') return { verb, kind, ...this.#add(kind) };
    const index = Math.floor(this.#random() * there.length);
    const { name, object } = (verb === 'delete' ? there.splice(index, 1)[0] : there[index]) ?? {
      name: '',
      object: -1,
    };
    return { verb, kind, name, object };
  }

  #kind(): ChurnKind {
    let left = this.#random() * 100;
    for (const [kind, share] of shares) {
      left -= share;
      if (left < 0) return kind;
    }
    return 'pods';
  }

  #verb(there: number, limit: number): ChurnVerb {
    const random = this.#random();
    if (there === 0) return 'create';
    if (there === limit) return random < 0.5 ? 'update' : 'delete';
    if (random < 0.4) return 'create';
    return random < 0.75 ? 'update' : 'delete';
  }

  #add(kind: ChurnKind): { name: string; object: number } {
    const there = this.#there[kind];
    const object = this.#made++;
    const taken = new Set(there.map(({ place }) => place));
    let place = 0;
    while (taken.has(place)) place++;
    const name = kind === 'configmaps' ? configMapName(this.#lane, place) : `churn-${this.#lane}-${object}`;
    there.push({ name, object, place });
    return { name, object };
  }
}
