import type { ComponentPlan, PlanFile } from '../../control-plane/index.ts';
import { componentHash } from '../component-hash.ts';
import type { Place } from './place.ts';

/** Variable by which a process of ours is found even when its record is lost. */
export const markVariable = 'SKERRY_COMPONENT';

/** What is to run. */
export interface Target {
  component: ComponentPlan;
  /** A change of it makes a restart necessary. */
  hash: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  files: PlanFile[];
  /** Processes that carry this component's mark. */
  marked: readonly number[];
}

const inherited = ['PATH', 'HOME', 'USER', 'TMPDIR', 'TZ', 'LANG'];

/** What has to run for a component of a plan: command line and environment with every placeholder filled in. */
export function targetOf(
  component: ComponentPlan,
  command: string,
  place: Place,
  options: { environment: NodeJS.ProcessEnv; marked: readonly number[] },
): Target {
  const fill = (text: string) =>
    text
      .replaceAll('${files}', place.files(component.name))
      .replaceAll('${data}', place.data(component.name));
  const env: Record<string, string> = {};
  for (const name of inherited) {
    const value = options.environment[name];
    if (value !== undefined) env[name] = value;
  }
  for (const [name, value] of Object.entries(component.env)) env[name] = fill(value);
  env[markVariable] = place.mark(component.name);
  return {
    component,
    hash: componentHash(component),
    command,
    args: component.args.map(fill),
    env,
    files: component.files.map((file) => ({ ...file, content: fill(file.content) })),
    marked: options.marked,
  };
}
