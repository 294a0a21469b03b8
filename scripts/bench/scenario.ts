import type { BenchOptions } from './arguments.ts';
import type { Lab } from './lab.ts';
import type { Table } from './measure/markdown.ts';

/** One kind of work and what is measured about it. One file each in `scenarios/`. */
export interface Scenario {
  readonly name: string;
  /** For the help text. */
  readonly summary: string;
  /** True: nothing can be measured on the super cluster alone, so `--direct` leaves it out. */
  readonly needsTenants: boolean;
  /** Leaves the lab as it found it, whatever happens, but for tenants, which later scenarios use again. */
  run(lab: Lab, options: BenchOptions): Promise<ScenarioResult>;
}

export interface ScenarioResult {
  /** Sizes and other circumstances that explain the figures. */
  settings: Record<string, unknown>;
  /** Everything that was measured, as it goes into the JSON file. */
  rounds: unknown[];
  /** Medians of it, and what they are compared with. */
  summary: Record<string, unknown>;
  tables: Table[];
}
