import { z } from 'zod';
import type { Clock } from '../../../kube/index.ts';
import type { Docker } from './docker.ts';
import { labels } from './names.ts';

const schema = z.object({
  Action: z.string(),
  timeNano: z.number(),
  Actor: z.object({ ID: z.string(), Attributes: z.record(z.string(), z.string()) }),
});

const reconnectPauseMs = 1_000;

export interface EngineEvent {
  id: string;
  component: string;
  /** `died`: nobody has asked the engine to stop it. */
  what: 'started' | 'died';
  at: Date;
  exitCode?: number;
}

/**
 * Tells what happens to the containers of components, in order, each event once, also over times in which the engine
 * does not answer. An end that somebody has asked the engine for is not told.
 */
export async function followEngine(
  docker: Pick<Docker, 'lines'>,
  options: { clock: Clock; signal: AbortSignal; tell: (event: EngineEvent) => void },
): Promise<void> {
  const { clock, signal, tell } = options;
  let since = (clock.now() / 1000).toFixed(3);
  let last = 0;
  /** What came before is known from the connection before. */
  let told = 0;
  /** Containers that were told to end and have not been started since. */
  const asked = new Set<string>();
  while (!signal.aborted) {
    const args = ['events', '--format', '{{json .}}', '--since', since, '--filter', 'type=container'];
    try {
      for await (const line of docker.lines([...args, '--filter', `label=${labels.component}`], signal)) {
        const event = parse(line);
        // A new connection asks for the last moment again.
        if (event === undefined || event.timeNano <= told) continue;
        last = event.timeNano;
        const news = understand(event, asked);
        if (news !== undefined) tell(news);
      }
    } catch (error) {
      if (!signal.aborted && (error as { code?: unknown }).code !== 'EngineUnavailable') throw error;
    }
    told = last;
    if (last > 0) since = (Math.floor(last / 1e6) / 1000).toFixed(3);
    // There is no event for an engine that comes back.
    await clock.sleep(reconnectPauseMs, signal).catch(() => undefined);
  }
}

function understand(
  { Action, timeNano, Actor }: z.infer<typeof schema>,
  asked: Set<string>,
): EngineEvent | undefined {
  const { [labels.id]: id, [labels.component]: component, exitCode, signal } = Actor.Attributes;
  if (id === undefined || component === undefined) return undefined;
  const at = new Date(timeNano / 1e6);
  switch (Action) {
    case 'kill':
      // Other signals are messages.
      if (signal === '15' || signal === '9') asked.add(Actor.ID);
      return undefined;
    case 'start':
      asked.delete(Actor.ID);
      return { id, component, what: 'started', at };
    case 'die':
      if (asked.has(Actor.ID)) return undefined;
      return {
        id,
        component,
        what: 'died',
        at,
        ...(exitCode === undefined ? {} : { exitCode: Number(exitCode) }),
      };
    case 'destroy':
      asked.delete(Actor.ID);
      return undefined;
    default:
      return undefined;
  }
}

function parse(line: string): z.infer<typeof schema> | undefined {
  try {
    return schema.parse(JSON.parse(line));
  } catch {
    // What the command says when it cannot connect.
    return undefined;
  }
}
