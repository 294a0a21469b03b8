import { z } from 'zod';
import type { Clock } from '../../../kube/index.ts';
import type { ComponentExit, ComponentObservation, ComponentState, LogOptions } from '../driver.ts';
import { portInUse, unknownComponent, willNotStop } from '../errors.ts';
import { isPortFree, portHolder } from '../ports.ts';
import { exitsUntilFailed } from '../readiness.ts';
import { componentOf, slotsOf } from '../slots.ts';
import type { ComponentWatch } from './component-events.ts';
import { type ContainerSpec, containerUser, labels, projectOf } from './compose-file.ts';
import { type Docker, type DockerResult, imageMissing, refused } from './docker.ts';
import { fillVolumes, listVolumes, removeFiles } from './volumes.ts';

const schema = z.object({
  Id: z.string(),
  RestartCount: z.number(),
  State: z.object({
    Status: z.enum(['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead']),
    Pid: z.number(),
    ExitCode: z.number(),
    StartedAt: z.string(),
    FinishedAt: z.string(),
  }),
  Config: z.object({ Labels: z.record(z.string(), z.string()), User: z.string() }),
});

/** The container of one component, as the engine has it. */
export interface ComponentContainer {
  containerId: string;
  slot: string;
  /** What it was made for. */
  hash: string;
  /** Other than the user's own: by which its connections are judged. */
  group?: number;
  dependsOn: string[];
  stopTimeoutMs: number;
  status: z.infer<typeof schema>['State']['Status'];
  /** Of its process on the engine's machine; absent when there is none. */
  pid?: number | undefined;
  startedAt?: Date | undefined;
  /** How often the engine has started it again since it was last started on request. */
  restarts: number;
  lastExit?: ComponentExit | undefined;
}

/** The containers of a control plane by slot, of all managers. */
export async function findContainers(
  docker: Docker,
  id: string,
  signal?: AbortSignal,
): Promise<Map<string, ComponentContainer>> {
  const filters = [`label=${labels.id}=${id}`, `label=${labels.component}`];
  const listed = await docker.run(
    ['ps', '--all', '--quiet', '--no-trunc', ...filters.flatMap((filter) => ['--filter', filter])],
    { signal },
  );
  if (listed.exitCode !== 0) throw refused({ id }, 'list containers', listed.stderr);
  const ids = listed.stdout.split('\n').filter((line) => line !== '');
  if (ids.length === 0) return new Map();
  const inspected = await docker.run(['inspect', '--type', 'container', ...ids], { signal });
  // One that was removed meanwhile makes it fail, and is left out of what it prints.
  if (inspected.exitCode !== 0 && !/no such (container|object)/i.test(inspected.stderr))
    throw refused({ id }, 'inspect containers', inspected.stderr);
  const containers = z.array(schema).parse(JSON.parse(inspected.stdout || '[]'));
  return new Map(containers.map((each) => componentContainer(each)).map((each) => [each.slot, each]));
}

function componentContainer({ Id, RestartCount, State, Config }: z.infer<typeof schema>): ComponentContainer {
  const finishedAt = time(State.FinishedAt);
  const over = State.Status === 'exited' || State.Status === 'dead' || State.Status === 'restarting';
  return {
    containerId: Id,
    slot: Config.Labels[labels.component] ?? '',
    hash: Config.Labels[labels.hash] ?? '',
    ...groupOf(Config.User),
    dependsOn: (Config.Labels[labels.dependsOn] ?? '').split(',').filter((name) => name !== ''),
    stopTimeoutMs: Number(Config.Labels[labels.stopTimeoutMs] ?? 10_000),
    status: State.Status,
    pid: State.Pid > 0 ? State.Pid : undefined,
    startedAt: time(State.StartedAt),
    restarts: RestartCount,
    lastExit: finishedAt && { at: finishedAt, code: over ? State.ExitCode : undefined },
  };
}

/** Of a user and its group, as Compose is told of them. */
function groupOf(user: string): { group?: number } {
  const group = Number(user.split(':')[1] ?? containerUser);
  return group === containerUser ? {} : { group };
}

/** With which the containers of all control planes of the engine run, or would be started again. */
export async function groupsInUse(docker: Docker): Promise<Set<number>> {
  const listed = await docker.run(['ps', '--all', '--quiet', '--filter', `label=${labels.component}`]);
  if (listed.exitCode !== 0) throw refused({}, 'list containers', listed.stderr);
  const ids = listed.stdout.split('\n').filter((line) => line !== '');
  if (ids.length === 0) return new Set();
  const users = await docker.run([
    ...['inspect', '--type', 'container'],
    ...['--format', '{{.Config.User}}'],
    ...ids,
  ]);
  if (users.exitCode !== 0) throw refused({}, 'inspect containers', users.stderr);
  return new Set(users.stdout.split('\n').flatMap((user) => groupOf(user).group ?? []));
}

/** The engine writes the year 1 where there is no time. */
function time(text: string): Date | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1970 ? undefined : date;
}

/** What the engine says of a component, and what only a driver that looks after it knows besides. */
export function observation(
  container: ComponentContainer,
  watch: Pick<ComponentWatch, 'state' | 'lastExit' | 'restartsBefore'> | undefined,
): ComponentObservation {
  const { slot, status, pid, startedAt } = container;
  const lastExit = watch?.lastExit ?? container.lastExit;
  const runs = status === 'running' && pid !== undefined;
  return {
    name: componentOf(slot),
    state: stateOf(container, watch?.state),
    ...(runs && { pid, startedAt }),
    restarts: Math.max(0, container.restarts - (watch?.restartsBefore ?? 0)),
    lastExit,
  };
}

function stateOf(
  { status, restarts }: ComponentContainer,
  watched: ComponentWatch['state'] | undefined,
): ComponentState {
  switch (status) {
    case 'running':
      return watched ?? 'running';
    case 'restarting':
      return watched === 'failed' || restarts >= exitsUntilFailed ? 'failed' : 'starting';
    case 'dead':
      return 'failed';
    case 'created':
    case 'exited':
    case 'paused':
    case 'removing':
      return 'stopped';
  }
}

const linesInErrors = 12;

/** What the driver asks the engine to do with the containers of one component. All throw DriverError. */
export class ContainerCommands {
  readonly #docker: Docker;

  constructor(docker: Docker) {
    this.#docker = docker;
  }

  /** Makes the container as the Compose file says, and starts it. */
  async up(id: string, file: string, target: ContainerSpec, signal: AbortSignal): Promise<void> {
    const { name } = target.component;
    const project = ['compose', '--project-name', projectOf(id), '--file', file];
    const up = ['up', '--detach', '--no-deps', '--no-build', '--pull', 'never', name];
    const result = await this.#docker.run([...project, ...up], { signal });
    if (result.exitCode !== 0)
      throw refused({ id, component: componentOf(name) }, `start ${name} of ${id}`, words(result));
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

  /** Asks it to end, and kills it if it has not by then; it stays ended until it is started on request. */
  async stop(
    id: string,
    container: ComponentContainer,
    signal: AbortSignal,
    timeoutMs: number = container.stopTimeoutMs,
  ): Promise<void> {
    const { containerId, slot, pid } = container;
    const seconds = String(Math.ceil(timeoutMs / 1000));
    const result = await this.#docker.run(['stop', '-t', seconds, containerId], { signal });
    if (result.exitCode === 0 || isGone(result)) return;
    if (pid !== undefined && /did not receive an exit event|cannot stop container/i.test(result.stderr))
      throw willNotStop({ id, component: componentOf(slot) }, pid);
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
    await removeFiles(this.#docker, { id, component: container.slot }, except);
  }

  fillVolumes(id: string, target: ContainerSpec, signal: AbortSignal): Promise<void> {
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

  /** What these components keep. Nothing of them may be there that uses it. */
  async removeData(id: string, components: readonly string[], signal: AbortSignal): Promise<void> {
    for (const component of components) {
      const filters = [`${labels.id}=${id}`, `${labels.component}=${component}`, `${labels.volume}=data`];
      const volumes = await listVolumes(this.#docker, filters);
      if (volumes.length === 0) continue;
      const result = await this.#docker.run(['volume', 'rm', '--force', ...volumes], { signal });
      if (result.exitCode !== 0) throw refused({ id, component }, 'remove its data', result.stderr);
    }
  }

  /** Throws `PortInUse`. Containers have the host's network, so a look from here tells. */
  async checkPorts(id: string, { component }: ContainerSpec): Promise<void> {
    for (const { port, host } of component.ports) {
      if (await isPortFree(port, host ?? '0.0.0.0')) continue;
      throw portInUse({ id, component: componentOf(component.name) }, port, await portHolder(port));
    }
  }

  async tail(id: string, slot: string): Promise<string[]> {
    const container = (await findContainers(this.#docker, id)).get(slot);
    if (container === undefined) return [];
    const { stdout, stderr } = await this.#docker.run([
      ...['logs', '--tail', String(linesInErrors)],
      container.containerId,
    ]);
    return `${stdout}\n${stderr}`.split('\n').filter((line) => line !== '');
  }

  #must(result: DockerResult, id: string, { slot }: ComponentContainer, verb: string): void {
    if (result.exitCode === 0) return;
    throw refused({ id, component: componentOf(slot) }, `${verb} ${slot} of ${id}`, words(result));
  }
}

function words({ stderr, stdout }: DockerResult): string {
  return stderr || stdout;
}

function isGone({ stderr }: DockerResult): boolean {
  return /no such container|is already in progress/i.test(stderr);
}

function newestOf(
  containers: ReadonlyMap<string, ComponentContainer>,
  component: string,
): ComponentContainer | undefined {
  const since = ({ startedAt }: ComponentContainer): number => startedAt?.getTime() ?? 0;
  return slotsOf(component)
    .flatMap((slot) => containers.get(slot) ?? [])
    .sort((a, b) => since(a) - since(b))
    .at(-1);
}

/** The engine's log ends with the process, also when it is started again. */
const lookAgainMs = 500;
const stamped = /^(\d{4}-\d\d-\d\dT\S+) ?(.*)$/;

/**
 * The lines of a component's log. With `follow` it goes on over restarts and over a new container, until aborted; an
 * abort ends the iteration. Throws `UnknownComponent` at first.
 */
export async function* readContainerLog(
  docker: Docker,
  where: { id: string; component: string },
  options: LogOptions & { clock: Clock },
): AsyncGenerator<string> {
  const { signal, follow, tailLines, clock } = options;
  const now = new Date(clock.now()).toISOString().replace('Z', '000000Z');
  const first = await findContainers(docker, where.id);
  let container = newestOf(first, where.component);
  if (container === undefined)
    throw unknownComponent(where, [...new Set([...first.keys()].map(componentOf))].sort());
  // Asked for none of what is there, the engine would also leave out what comes while it opens the log.
  const fromNow = follow === true && tailLines === 0;
  /** Time of the last line that was given. */
  let last = fromNow ? now : '';
  let isOf = container.containerId;
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    if (container !== undefined) {
      // A new one may have been started before the last words of the earlier one.
      if (container.containerId !== isOf) last = '';
      isOf = container.containerId;
      const args = [
        ...['logs', '--timestamps', ...(follow === true ? ['--follow'] : [])],
        ...(isFirst && tailLines !== undefined && !fromNow ? ['--tail', String(tailLines)] : []),
        ...(last === '' ? [] : ['--since', last]),
        container.containerId,
      ];
      const known = last;
      for await (const line of docker.lines(args, signal)) {
        const [, time = '', text = ''] = stamped.exec(line) ?? [];
        if (time === '' || time <= known) continue;
        if (signal.aborted) return;
        last = time;
        yield text;
      }
    }
    if (follow !== true) return;
    await clock.sleep(lookAgainMs, signal).catch(() => undefined);
    if (!signal.aborted) container = newestOf(await findContainers(docker, where.id), where.component);
  }
}

/** Makes the engine have the images, before anything that runs is touched. Throws `ImageMissing`. */
export async function provideImages(
  docker: Docker,
  id: string,
  targets: readonly ContainerSpec[],
  options: { signal: AbortSignal; onProgress: ((message: string) => void) | undefined },
): Promise<void> {
  const { signal, onProgress } = options;
  const byImage = new Map(targets.map((target) => [target.image, componentOf(target.component.name)]));
  for (const [image, component] of byImage) {
    const { exitCode } = await docker.run(['image', 'inspect', '--format', '{{.Id}}', image], { signal });
    if (exitCode === 0) continue;
    onProgress?.(`pulling ${image}`);
    const pulled = await docker.run(['pull', '--quiet', image], { signal });
    if (pulled.exitCode !== 0) throw imageMissing({ id, component }, image, pulled.stderr);
  }
}
