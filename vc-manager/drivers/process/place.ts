import { join } from 'node:path';
import { isControlPlaneName } from '../control-plane-names.ts';
import { invalidName } from '../errors.ts';

/** Where everything of one control plane lies. Names are checked, so no path leaves the root. */
export class Place {
  readonly directory: string;
  /** Holds a record of each process. */
  readonly run: string;
  readonly logs: string;

  constructor(root: string, id: string) {
    if (!isControlPlaneName(id)) throw invalidName('control plane', id);
    this.directory = join(root, id);
    this.run = join(this.directory, 'run');
    this.logs = join(this.directory, 'logs');
  }

  /** Read-only files of a component, `${files}` in its arguments. */
  files(component: string): string {
    return join(this.directory, 'files', checked(component));
  }

  /** What a component keeps, `${data}` in its arguments. */
  data(component: string): string {
    return join(this.directory, 'data', checked(component));
  }

  log(component: string): string {
    return join(this.logs, `${checked(component)}.log`);
  }

  /** The value by which a process is recognised as this component, whatever its record says. */
  mark(component: string): string {
    return `${this.directory}/${component}`;
  }
}

function checked(component: string): string {
  if (!isControlPlaneName(component)) throw invalidName('component', component);
  return component;
}
