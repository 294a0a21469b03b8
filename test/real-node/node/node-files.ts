import { join } from 'node:path';

/** Where everything of a node lies on the machine. */
export class NodeFiles {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** Its own /var/lib/<name>. */
  state(name: 'kubelet' | 'containerd' | 'local-path-provisioner'): string {
    return join(this.directory, name);
  }

  file(name: string): string {
    return join(this.directory, name);
  }

  log(program: string): string {
    return join(this.directory, 'logs', `${program}.log`);
  }
}

/** Names of directories that a node has to itself. */
export const stateNames = ['kubelet', 'containerd', 'local-path-provisioner'] as const;
