import type { Lab } from './lab.ts';
import type { Table } from './markdown.ts';
import type { BenchOptions, KnownScenario } from './options.ts';
import type { Plot } from './plot.ts';

/** One kind of work and what is measured about it. One file each in `scenarios/`. */
export interface Scenario extends KnownScenario {
  /** True: nothing can be measured on the super cluster alone, so `--direct` leaves it out. */
  readonly needsTenants: boolean;
  /** True: a stack of the run's own gets a gateway, and all scenarios of that run go through it. */
  readonly withGateway?: boolean;
  /** Leaves the lab as it was, also after a failure, except for tenants, which later scenarios use again. */
  run(lab: Lab, options: BenchOptions): Promise<ScenarioResult>;
}

/** One figure, to be compared with the same of another run. */
export interface Figure {
  name: string;
  unit: string;
  better: 'less' | 'more';
  /** One for each repeat, or whatever it was measured on; the figure is their median. */
  values: number[];
}

export interface ScenarioResult {
  /** Sizes and other circumstances that explain the figures. */
  settings: Record<string, unknown>;
  /** Everything that was measured, as it goes into the JSON file. */
  rounds: unknown[];
  figures: Figure[];
  tables: Table[];
  plots: Plot[];
}

/** In a list, so that what was not measured leaves none: values that are no numbers do not count. */
export function figure(
  name: string,
  unit: string,
  values: readonly (number | undefined)[],
  better: Figure['better'] = 'less',
): Figure[] {
  const measured = values.filter((value): value is number => Number.isFinite(value));
  return measured.length === 0 ? [] : [{ name, unit, better, values: measured }];
}
