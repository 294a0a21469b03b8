import { defaultSystemNamespace } from '../../../api/names.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import { isUnclaimed } from '../../../api/warm-pool.ts';
import { messageOf, Reflector, resources, Store } from '../../../kube/index.ts';
import type { LocalStack } from '../../local-stack/local-stack.ts';
import type { Cli } from '../context.ts';
import type { ServeOptions } from '../dashboard/serve.ts';
import { CliError } from '../errors.ts';
import type { Progress } from '../progress.ts';
import { asSupervisor, claimStateDirectory } from '../state-directory.ts';
import { withConnection } from '../super-cluster.ts';
import { readyCondition } from '../virtual-clusters.ts';
import { startAll, type UpOptions } from './start.ts';
import { stopAll } from './stop.ts';
import type { UpSummary } from './summary.ts';

/** A terminal and npm may each deliver the same Ctrl-C. Milliseconds. */
const oneKeypressMs = 1_000;

interface SuperviseOptions extends UpOptions {
  progress: Progress;
  onReady: (summary: UpSummary) => void;
  loadBackend: () => Promise<ServeOptions['backend']>;
}

/** Starts everything, keeps it running until a signal arrives, and then stops it in order. */
export async function supervise(cli: Cli, options: SuperviseOptions): Promise<void> {
  const { stateDir, progress } = options;
  const stop = new AbortController();
  const force = new AbortController();
  let firstAt = 0;
  cli.onSignal((signal) => {
    const now = cli.clock.monotonic();
    if (!stop.signal.aborted) {
      firstAt = now;
      progress.note('Stopping everything; Ctrl-C again kills it.');
      stop.abort(new Error(`received ${signal}`));
    } else if (signal === 'SIGINT' && now - firstAt > oneKeypressMs) {
      force.abort(new Error('received a second SIGINT'));
    }
  });
  await claimStateDirectory(stateDir);
  await asSupervisor({ stateDir, clock: cli.clock, signal: stop.signal }, async () => {
    let stack: LocalStack | undefined;
    let failure: unknown;
    let isUp = false;
    try {
      const { summary, superCluster, dashboardPort } = await startAll(cli, options, {
        progress,
        signal: stop.signal,
        onStack: (made) => {
          stack = made;
        },
      });
      isUp = true;
      const { signal } = stop;
      const dashboard = options.dashboard
        ? await startDashboard(cli, { ...options, superCluster, port: dashboardPort, signal })
        : undefined;
      options.onReady({ ...summary, dashboard: dashboard?.link });
      await Promise.all([
        reportEvents({ stack, superCluster, progress, clock: cli.clock, signal }),
        dashboard?.ended,
      ]);
    } catch (error) {
      if (!stop.signal.aborted) {
        failure = error;
        if (stack !== undefined) progress.note('That failed; stopping what was started.');
      }
    }
    if (stack !== undefined) await stopInOrder(stack, options, force.signal);
    if (failure !== undefined) throw failure;
    progress.note('Stopped. The state is kept: "up" with the same --state-dir resumes.');
    if (!isUp) throw new CliError('Interrupted', 'stopped before everything was up');
  });
}

interface StartDashboardOptions extends Pick<SuperviseOptions, 'stateDir' | 'progress' | 'loadBackend'> {
  superCluster: EventOptions['superCluster'];
  port: number;
  signal: AbortSignal;
}

/** What keeps the dashboard from being served keeps nothing else. */
async function startDashboard(
  cli: Cli,
  { superCluster, port, stateDir, progress, loadBackend, signal }: StartDashboardOptions,
): Promise<{ link: string; ended: Promise<void> } | undefined> {
  const note = (error: unknown): void => progress.note(`There is no dashboard: ${messageOf(error)}`);
  try {
    const { listeningDashboard } = await import('../dashboard/serve.ts');
    const address = { host: '127.0.0.1', port };
    const dashboard = await listeningDashboard(cli, {
      ...{
        superCluster,
        address,
        stateDir,
        systemNamespace: defaultSystemNamespace,
        backend: await loadBackend(),
      },
      onProblem: (problem) => progress.note(`The dashboard does not show what is: ${problem}`),
    });
    return { link: dashboard.link(), ended: dashboard.run(signal).catch(note) };
  } catch (error) {
    note(error);
    return undefined;
  }
}

async function stopInOrder(
  { driver }: LocalStack,
  { stateDir, progress }: SuperviseOptions,
  force: AbortSignal,
): Promise<void> {
  try {
    await stopAll({ stateDir, progress, driver, signal: force });
  } catch (error) {
    if (!force.aborted) throw error;
    progress.note('Killing what is left.');
    await stopAll({ stateDir, progress, driver, signal: AbortSignal.timeout(60_000), force: true });
  }
}

interface EventOptions extends Pick<Cli, 'clock'> {
  stack: LocalStack | undefined;
  superCluster: Parameters<typeof withConnection>[0];
  progress: Progress;
  signal: AbortSignal;
}

/** Prints what happens to components and tenants until aborted. */
async function reportEvents({ stack, superCluster, progress, clock, signal }: EventOptions): Promise<void> {
  const print = (message: string): void =>
    progress.note(`${new Date(clock.now()).toTimeString().slice(0, 8)} ${message}`);
  const stopWatching = stack?.driver.watch((_, component, what) => {
    if (signal.aborted) return;
    print(what === 'exited' ? `${component} has exited; starting it again` : `${component} was started`);
  });
  const virtualClusters = new Store<VirtualCluster>();
  let isFirstList = true;
  virtualClusters.subscribe(({ type, object, previous }) => {
    const message = isFirstList || isUnclaimed(object) ? undefined : describeChange(type, object, previous);
    if (message !== undefined) print(message);
  });
  await withConnection(superCluster, async (client) => {
    const reflector = new Reflector({
      client,
      clock,
      resource: resources.virtualClusters,
      store: virtualClusters,
      onProblem: ({ error, failures }) => {
        if (failures === 1) print(`tenants cannot be followed, trying again: ${messageOf(error)}`);
      },
    });
    const running = reflector.run(signal);
    await reflector.synced(signal).catch(() => undefined);
    isFirstList = false;
    await running;
  });
  stopWatching?.();
}

/** One line for a change of phase, a creation or a deletion; undefined for other changes. */
export function describeChange(
  type: 'added' | 'modified' | 'deleted',
  object: VirtualCluster,
  previous: VirtualCluster | undefined,
): string | undefined {
  const name = `tenant ${object.metadata.namespace}/${object.metadata.name}`;
  if (type === 'added') return `${name} was created`;
  if (type === 'deleted') return `${name} is gone`;
  const phase = object.status?.phase;
  if (phase === previous?.status?.phase || phase === undefined) return undefined;
  if (phase === 'Ready') return `${name} is Ready at ${object.status?.endpoint}`;
  if (phase === 'Failed') return `${name} has failed: ${readyCondition(object)?.message ?? 'see describe'}`;
  return phase === 'Deleting' ? `${name} is being deleted` : undefined;
}
