import type { Lab } from './lab.ts';
import type { Table } from './markdown.ts';
import type { BenchOptions } from './options.ts';
import type { Plot } from './plot.ts';

/** One kind of work and what is measured about it. One file each in `scenarios/`. */
export interface Scenario {
  readonly name: string;
  /** For the help text. */
  readonly summary: string;
  /** True: nothing can be measured on the super cluster alone, so `--direct` leaves it out. */
  readonly needsTenants: boolean;
  /** True: it takes long or answers a question of its own, so that it only runs when it is named. */
  readonly onlyWhenNamed?: boolean;
  /** Leaves the lab as it found it, whatever happens, but for tenants, which later scenarios use again. */
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
  /** Medians of it, and what they are compared with. */
  summary: Record<string, unknown>;
  figures: Figure[];
  tables: Table[];
  plots: Plot[];
}
