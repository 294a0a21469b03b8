import { portInUse, willNotStop } from '../errors.ts';
import { isPortFree, portHolder } from '../ports.ts';
import { type ComponentContainer, findContainers } from './containers.ts';
import type { Docker, DockerResult } from './docker.ts';
import { refused } from './errors.ts';
import { labels, projectOf } from './names.ts';
import type { Target } from './target.ts';
import { fillVolumes, listVolumes, removeFiles } from './volumes.ts';

const linesInErrors = 12;

/** What the driver asks the engine to do with the containers of one component. All throw DriverError. */
export class ContainerCommands {
  readonly #docker: Docker;

  constructor(docker: Docker) {
    this.#docker = docker;
  }

  /** Makes the container as the Compose file says, and starts it. */
  async up(id: string, file: string, target: Target, signal: AbortSignal): Promise<void> {
    const { name } = target.component;
    const project = ['compose', '--project-name', projectOf(id), '--file', file];
    const up = ['up', '--detach', '--no-deps', '--no-build', '--pull', 'never', name];
    const result = await this.#docker.run([...project, ...up], { signal });
    if (result.exitCode !== 0)
      throw refused({ id, component: name }, `start ${name} of ${id}`, words(result));
  }

  async start(id: string, container: ComponentContainer, signal: AbortSignal): Promise<void> {
    const result = await this.#docker.run(['start', container.containerId], { signal });
    this.#must(result, id, container, 'start');
  }

  async unpause(id: string, container: ComponentContainer, signal: AbortSignal): Promise<void> {
    this.#must(
      await this.#docker.run(['unpause', container.containerId], { signal }),
      id,
      container,
      'resume',
    );
  }

  /** Asks it to end, and kills it if it has not by then; it stays ended until somebody starts it. */
  async stop(
    id: string,
    container: ComponentContainer,
    signal: AbortSignal,
    timeoutMs: number = container.stopTimeoutMs,
  ): Promise<void> {
    const { containerId, component, pid } = container;
    const seconds = String(Math.ceil(timeoutMs / 1000));
    const result = await this.#docker.run(['stop', '-t', seconds, containerId], { signal });
    if (result.exitCode === 0 || isGone(result)) return;
    if (pid !== undefined && /did not receive an exit event|cannot stop container/i.test(result.stderr))
      throw willNotStop({ id, component }, pid);
    this.#must(result, id, container, 'stop');
  }

  /** The container and its files, but for the volume `except`; its data stay. */
  async remove(
    id: string,
    container: ComponentContainer,
    signal: AbortSignal,
    except?: string,
  ): Promise<void> {
    const result = await this.#docker.run(['rm', '--force', container.containerId], { signal });
    if (!isGone(result)) this.#must(result, id, container, 'remove');
    await removeFiles(this.#docker, { id, component: container.component }, except);
  }

  fillVolumes(id: string, target: Target, signal: AbortSignal): Promise<void> {
    return fillVolumes(this.#docker, id, target, signal);
  }

  /** Every container and volume of the control plane. */
  async removeAll(id: string, signal: AbortSignal): Promise<void> {
    const label = `${labels.id}=${id}`;
    const listed = await this.#docker.run(['ps', '--all', '--quiet', '--filter', `label=${label}`], {
      signal,
    });
    if (listed.exitCode !== 0) throw refused({ id }, `list the containers of ${id}`, listed.stderr);
    const containers = listed.stdout.split('\n').filter((line) => line !== '');
    if (containers.length > 0) {
      const result = await this.#docker.run(['rm', '--force', ...containers], { signal });
      if (result.exitCode !== 0 && !isGone(result))
        throw refused({ id }, `remove the containers of ${id}`, result.stderr);
    }
    const volumes = await listVolumes(this.#docker, [label]);
    if (volumes.length === 0) return;
    const result = await this.#docker.run(['volume', 'rm', '--force', ...volumes], { signal });
    if (result.exitCode !== 0) throw refused({ id }, `remove the volumes of ${id}`, result.stderr);
  }

  /** Throws `PortInUse`. Containers have the host's network, so a look from here tells. */
  async checkPorts(id: string, { component }: Target): Promise<void> {
    for (const { port, host } of component.ports) {
      if (await isPortFree(port, host ?? '0.0.0.0')) continue;
      throw portInUse({ id, component: component.name }, port, await portHolder(port));
    }
  }

  async tail(id: string, component: string): Promise<string[]> {
    const container = (await findContainers(this.#docker, id)).get(component);
    if (container === undefined) return [];
    const { stdout, stderr } = await this.#docker.run([
      ...['logs', '--tail', String(linesInErrors)],
      container.containerId,
    ]);
    return `${stdout}\n${stderr}`.split('\n').filter((line) => line !== '');
  }

  #must(result: DockerResult, id: string, { component }: ComponentContainer, verb: string): void {
    if (result.exitCode === 0) return;
    throw refused({ id, component }, `${verb} ${component} of ${id}`, words(result));
  }
}

function words({ stderr, stdout }: DockerResult): string {
  return stderr || stdout;
}

function isGone({ stderr }: DockerResult): boolean {
  return /no such container|is already in progress/i.test(stderr);
}
