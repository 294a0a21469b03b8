import { type Clock, type KubeClient, resources } from '../../../kube/index.ts';
import type { LogOptions } from '../driver.ts';
import { ContainerLog, type Place } from './container-log.ts';
import { LogFollower } from './log-follower.ts';
import { componentLabel, namespaceOf } from './names.ts';
import { podLog } from './pod-log.ts';
import { containerOf, type Pod, type Termination } from './types.ts';

interface Source {
  client: KubeClient;
  clock: Clock;
  id: string;
  component: string;
}

/**
 * The log of a component. Of a container that was started again, what the one before said comes first, with a line
 * between them that tells of it; lines of one of several have the name of its pod in front. Followed, it goes on with
 * containers that are started again and with other pods, until aborted.
 */
export async function* componentLog(source: Source, options: LogOptions): AsyncGenerator<string> {
  const { client, clock, id, component } = source;
  const { signal } = options;
  const labelSelector = `${componentLabel}=${component}`;
  const namespace = namespaceOf(id);
  const { items } = await client.list<Pod>(resources.pods, { namespace, labelSelector, signal });
  const pods = items.toSorted((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  const several = pods.length > 1;
  const begun = new Map<string, ContainerLog>();
  for (const pod of pods) {
    const place: Place = { client, namespace, pod: pod.metadata.name ?? '', container: component };
    const log = new ContainerLog(place);
    const lines = await soFar(place, pod, log, options);
    const mark = several ? `[${place.pod}] ` : '';
    for (const line of lines) yield `${mark}${line}`;
    begun.set(pod.metadata.uid ?? '', log);
  }
  if (options.follow === true)
    yield* new LogFollower({ client, clock, namespace, component, begun }).lines(signal);
}

/** What there is of one pod. */
async function soFar(
  { client, ...place }: Place,
  pod: Pod,
  log: ContainerLog,
  { tailLines, signal }: LogOptions,
): Promise<string[]> {
  const tail = tailLines === undefined ? {} : { tailLines };
  const collect = async (from: AsyncIterable<string>): Promise<string[]> => {
    const lines: string[] = [];
    for await (const line of from) lines.push(line);
    return lines;
  };
  const last = containerOf(pod)?.lastState?.terminated;
  const before =
    last === undefined
      ? []
      : [
          ...(await collect(podLog(client, { ...place, ...tail, previous: true, signal }))),
          noteOf(pod, last),
        ];
  const lines = [...before, ...(await collect(log.read({ ...tail, signal })))];
  return tailLines === undefined ? lines : lines.slice(Math.max(0, lines.length - tailLines));
}

function noteOf(pod: Pod, { exitCode, reason, finishedAt }: Termination): string {
  const why = reason === undefined || reason === 'Error' ? '' : `, ${reason}`;
  return `--- ${pod.metadata.name} was started again: it had ended at ${finishedAt} with exit code ${exitCode}${why} ---`;
}
