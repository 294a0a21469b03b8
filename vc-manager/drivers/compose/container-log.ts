import type { Clock } from '../../../kube/index.ts';
import type { LogOptions } from '../driver.ts';
import { unknownComponent } from '../errors.ts';
import { findContainers } from './containers.ts';
import type { Docker } from './docker.ts';

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
  if (!first.has(where.component)) throw unknownComponent(where, [...first.keys()].sort());
  let container = first.get(where.component);
  // Asked for none of what is there, the engine would also leave out what comes while it opens the log.
  const fromNow = follow === true && tailLines === 0;
  /** Time of the last line that was given. */
  let last = fromNow ? now : '';
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    if (container !== undefined) {
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
    if (!signal.aborted) container = (await findContainers(docker, where.id)).get(where.component);
  }
}
