import { z } from 'zod';
import type { ComponentExit } from '../driver.ts';
import type { Docker } from './docker.ts';
import { refused } from './errors.ts';
import { labels } from './names.ts';

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
  Config: z.object({ Labels: z.record(z.string(), z.string()) }),
});

/** The container of one component, as the engine has it. */
export interface ComponentContainer {
  containerId: string;
  component: string;
  /** What it was made for. */
  hash: string;
  dependsOn: string[];
  stopTimeoutMs: number;
  status: z.infer<typeof schema>['State']['Status'];
  /** Of its process on the engine's machine; absent when there is none. */
  pid?: number;
  startedAt?: Date;
  /** How often the engine has started it again since somebody started it. */
  restarts: number;
  lastExit?: ComponentExit;
}

/** The containers of a control plane by component, whoever has made them. */
export async function findContainers(
  docker: Docker,
  id: string,
  signal?: AbortSignal,
): Promise<Map<string, ComponentContainer>> {
  const options = signal === undefined ? {} : { signal };
  const filters = [`label=${labels.id}=${id}`, `label=${labels.component}`];
  const listed = await docker.run(
    ['ps', '--all', '--quiet', '--no-trunc', ...filters.flatMap((filter) => ['--filter', filter])],
    options,
  );
  if (listed.exitCode !== 0) throw refused({ id }, 'list containers', listed.stderr);
  const ids = listed.stdout.split('\n').filter((line) => line !== '');
  if (ids.length === 0) return new Map();
  const inspected = await docker.run(['inspect', '--type', 'container', ...ids], options);
  // One that was removed meanwhile makes it fail, and is left out of what it prints.
  if (inspected.exitCode !== 0 && !/no such (container|object)/i.test(inspected.stderr))
    throw refused({ id }, 'inspect containers', inspected.stderr);
  const containers = z.array(schema).parse(JSON.parse(inspected.stdout || '[]'));
  return new Map(containers.map((each) => componentContainer(each)).map((each) => [each.component, each]));
}

function componentContainer({ Id, RestartCount, State, Config }: z.infer<typeof schema>): ComponentContainer {
  const finishedAt = time(State.FinishedAt);
  const startedAt = time(State.StartedAt);
  const over = State.Status === 'exited' || State.Status === 'dead' || State.Status === 'restarting';
  return {
    containerId: Id,
    component: Config.Labels[labels.component] ?? '',
    hash: Config.Labels[labels.hash] ?? '',
    dependsOn: (Config.Labels[labels.dependsOn] ?? '').split(',').filter((name) => name !== ''),
    stopTimeoutMs: Number(Config.Labels[labels.stopTimeoutMs] ?? 10_000),
    status: State.Status,
    ...(State.Pid > 0 ? { pid: State.Pid } : {}),
    ...(startedAt === undefined ? {} : { startedAt }),
    restarts: RestartCount,
    ...(finishedAt === undefined
      ? {}
      : { lastExit: { at: finishedAt, ...(over ? { code: State.ExitCode } : {}) } }),
  };
}

/** The engine writes the year 1 where there is no time. */
function time(text: string): Date | undefined {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1970 ? undefined : date;
}
