import type { Clock } from '../../kube/index.ts';
import type { ComponentPlan, ControlPlanePlan } from '../control-plane/plan.ts';
import {
  type ComponentObservation,
  componentHash,
  type EnsureOptions,
  handOverPauseMs,
  type SurgeUpdate,
} from './driver.ts';
import { invalidName } from './errors.ts';

/**
 * A component that is replaced without downtime has two slots: one is in use, the other one takes the instance that is
 * started beside it. Each replacement changes which one is in use.
 */
const suffix = '-beside';

export function slotsOf(component: string): readonly [string, string] {
  return [component, `${component}${suffix}`];
}

export function componentOf(slot: string): string {
  return slot.endsWith(suffix) ? slot.slice(0, -suffix.length) : slot;
}

/** Throws `InvalidName` for a plan whose component has the name of a slot. */
export function refuseSlotNames({ components }: ControlPlanePlan): void {
  for (const { name } of components) if (componentOf(name) !== name) throw invalidName('component', name);
}

/** What is in a slot. */
export interface Occupant {
  slot: string;
  /** Digest of what was started there. */
  hash: string;
  runs: boolean;
}

/** The plan to carry out. `surge`: the component runs and has changed, and is to be started beside the running one. */
export async function planSurge(
  plan: ControlPlanePlan,
  surge: SurgeUpdate | undefined,
  occupantsOf: (component: string) => Promise<readonly Occupant[]>,
): Promise<{ plan: ControlPlanePlan; surge?: SurgeUpdate }> {
  const component = plan.components.find(({ name }) => name === surge?.component);
  if (surge === undefined || component === undefined || component.data === true) return { plan };
  const running = (await occupantsOf(component.name)).filter(({ runs }) => runs);
  const hash = componentHash(component);
  if (running.length === 0 || running.some((each) => each.hash === hash)) return { plan };
  return { plan: await surge.plan(), surge };
}

/** Where the component is to run: where it does already, else in a free slot. `others` hold something that has to go. */
export function chooseSlot(
  component: Pick<ComponentPlan, 'name'>,
  hash: string,
  occupants: readonly Occupant[],
  isSurge: boolean,
): { target: string; others: string[] } {
  const slots = slotsOf(component.name);
  const running = occupants.filter(({ runs }) => runs);
  const free = slots.find((slot) => running.every((each) => each.slot !== slot));
  const target =
    running.find((each) => each.hash === hash)?.slot ??
    (isSurge ? free : running[0]?.slot) ??
    occupants.find((each) => each.hash === hash)?.slot ??
    slots[0];
  return { target, others: occupants.map(({ slot }) => slot).filter((slot) => slot !== target) };
}

interface StartInSlotOptions {
  name: string;
  onProgress: EnsureOptions['onProgress'];
  onReady: EnsureOptions['onReady'];
  /** Present: it starts beside what runs of it. */
  surge: SurgeUpdate | undefined;
  clock: Clock;
  signal: AbortSignal;
  /** Resolves when it is ready. */
  start: () => Promise<void>;
  /** Ends what is in the slots that have to be free. */
  clearOthers: () => Promise<void>;
  /** Ends one that has not become ready beside the earlier one, which goes on. */
  giveUp: () => Promise<void>;
}

/** Starts a component in its slot: in place of the earlier one, or beside it until clients were led to the new one. */
export async function startInSlot(options: StartInSlotOptions): Promise<void> {
  const { name, surge, clock, signal, onProgress, onReady } = options;
  onProgress?.(`starting ${name}`);
  if (surge === undefined) await options.clearOthers();
  try {
    await options.start();
  } catch (error) {
    if (surge !== undefined && !signal.aborted) await options.giveUp();
    throw error;
  }
  await surge?.handOver();
  onProgress?.(`${name} is ready`);
  onReady?.(name);
  if (surge === undefined) return;
  await clock.sleep(handOverPauseMs, signal);
  await options.clearOthers();
}

/** One observation of each component, by name: of two that run the one that was started last. */
export function observedComponents(slots: readonly ComponentObservation[]): ComponentObservation[] {
  const rank = ({ state }: ComponentObservation): number => (state === 'running' ? 1 : 0);
  const since = ({ startedAt }: ComponentObservation): number => startedAt?.getTime() ?? 0;
  const byName = new Map<string, ComponentObservation>();
  for (const each of [...slots].sort((a, b) => rank(a) - rank(b) || since(a) - since(b)))
    byName.set(each.name, each);
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
