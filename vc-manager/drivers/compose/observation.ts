import type { ComponentObservation, ComponentState } from '../driver.ts';
import { exitsUntilFailed } from '../exits.ts';
import type { ComponentWatch } from './component-watch.ts';
import type { ComponentContainer } from './containers.ts';

/** What the engine says of a component, and what only a driver that looks after it knows besides. */
export function observation(
  container: ComponentContainer,
  watch: Pick<ComponentWatch, 'state' | 'lastExit' | 'restartsBefore'> | undefined,
): ComponentObservation {
  const { component, status, pid, startedAt } = container;
  const lastExit = watch?.lastExit ?? container.lastExit;
  const runs = status === 'running' && pid !== undefined;
  return {
    name: component,
    state: stateOf(container, watch?.state),
    ...(runs ? { pid, ...(startedAt === undefined ? {} : { startedAt }) } : {}),
    restarts: Math.max(0, container.restarts - (watch?.restartsBefore ?? 0)),
    ...(lastExit === undefined ? {} : { lastExit }),
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
