import type { ManagerConditionType } from '../../api/conditions.ts';
import type { ControlPlaneTemplateSpec } from '../../api/control-plane-template.ts';
import { labelKeys } from '../../api/labels.ts';
import { apiVersion } from '../../api/names.ts';
import type { VirtualCluster, VirtualClusterPhase } from '../../api/virtual-cluster.ts';
import { isWarmPoolMember, warmClaim } from '../../api/warm-pool.ts';
import { isConflict, isNotFound, parseQuantity, resources, Wakeup } from '../../kube/index.ts';
import { insufficientMemory } from '../drivers/errors.ts';
import { isOlder } from './caches.ts';
import { explain } from './errors.ts';
import type { MachineMemory, Services } from './services.ts';
import { type VersionChoice, versionChoice } from './version-choice.ts';
import { dnsOf, isAvailable } from './warm-members.ts';

/** A member that waits, or will. */
interface Member {
  vc: VirtualCluster;
  template: string;
  isReady: boolean;
  /** It is not what a new tenant of its template would get, and never will be. */
  isOutdated: boolean;
  bytes: number;
}

/** One template of which control planes wait. */
interface PoolTemplate {
  template: string;
  wanted: number;
  bytes: number;
}

/** By the name of the template. */
type Choices = Map<string, { wanted: number; choice: VersionChoice['choice'] }>;

interface PoolView {
  templates: readonly PoolTemplate[];
  members: readonly Member[];
  /** Control planes of owners are being made: they come first. */
  isBusy: boolean;
  /** A control plane of an owner has no place for want of memory. */
  isShort: boolean;
  /** One that was removed still has what it takes. */
  isFreeing: boolean;
  /** Nothing is added now. */
  isPaused: boolean;
  memory: MachineMemory | undefined;
  limitBytes: number;
}

interface PoolStep {
  remove: readonly VirtualCluster[];
  /** Of which template one more is made. */
  add?: string;
  /** Memory is the reason why one is removed. */
  isGivingBack?: boolean;
}

/** Of the machine: nothing is added that would leave less than this share, and members go when there is less. */
const reserveShare = 0.1;
/** Of the machine: the most that the pool may take when nothing else is set. */
const defaultShare = 0.25;

/** What to change about the pool now: one step, after which it is looked at again. */
export function nextStep(view: PoolView): PoolStep {
  const { templates, members, memory } = view;
  const outdated = members.filter(
    ({ template, isOutdated }) => isOutdated || templateOf(templates, template) === undefined,
  );
  const current = members.filter((member) => !outdated.includes(member));
  // The ones that are of least use first.
  const byUse = current.toSorted(
    (a, b) => Number(a.isReady) - Number(b.isReady) || (isOlder(b.vc, a.vc) ? -1 : 1),
  );
  const surplus = templates.flatMap(({ template, wanted }) => {
    const all = byUse.filter((member) => member.template === template);
    return all.slice(0, Math.max(0, all.length - wanted));
  });
  const remove = [...outdated, ...surplus];
  const reserve = (memory?.totalBytes ?? 0) * reserveShare;
  const isShort = view.isShort || (memory !== undefined && memory.availableBytes < reserve);
  const kept = byUse.filter((member) => !surplus.includes(member));
  const taken = sum(kept);
  const [least] = kept;
  const isTooMuch = isShort || taken > view.limitBytes;
  if (least !== undefined && remove.length === 0 && isTooMuch && !view.isFreeing)
    return { remove: [least.vc], isGivingBack: true };
  const isFilling = members.some(({ isReady }) => !isReady);
  const isWaiting = isShort || isFilling || view.isBusy || view.isPaused;
  if (isWaiting || remove.length > 0) return { remove: remove.map(({ vc }) => vc) };
  const room = Math.min(
    view.limitBytes - taken,
    memory === undefined ? Number.POSITIVE_INFINITY : memory.availableBytes - reserve,
  );
  const missing = ({ template, wanted }: PoolTemplate): number =>
    wanted - kept.filter((member) => member.template === template).length;
  const [next] = templates
    .filter((poolTemplate) => missing(poolTemplate) > 0 && poolTemplate.bytes <= room)
    .toSorted((a, b) => missing(b) / b.wanted - missing(a) / a.wanted);
  return next === undefined ? { remove: [] } : { remove: [], add: next.template };
}

function templateOf(templates: readonly PoolTemplate[], template: string): PoolTemplate | undefined {
  return templates.find((poolTemplate) => poolTemplate.template === template && poolTemplate.wanted > 0);
}

function sum(members: readonly Member[]): number {
  return members.reduce((total, { bytes }) => total + bytes, 0);
}

/** Where a template names none. */
const defaultMemory = '64Mi';

/** What one control plane of this template asks for. */
export function memoryOf({ components }: ControlPlaneTemplateSpec, replicas: number): number {
  return components.reduce((total, { resources: asked, replicas: own, data }) => {
    const bytes = parseQuantity(asked?.requests?.['memory'] ?? defaultMemory) ?? 0;
    return total + bytes * (data === true ? 1 : (own ?? replicas));
  }, 0);
}

const lookEveryMs = 10_000;
/** After memory was short, or a member could not be made. */
const pauseMs = 60_000;
const failedPauseMs = 5 * 60_000;
/** Control planes of owners come first for so long; then one member is made beside them. */
const busyForMs = 60_000;
/** So long one that was made or removed may be missing in the store, or in it. */
const unseenForMs = 10_000;

/** Keeps control planes without an owner ready, as many as the settings and the templates say and memory allows. */
export class WarmPool {
  readonly #services: Services;
  readonly #wakeup = new Wakeup();
  /** Name of a member to what was done about it, and until when on a monotonic clock the store may not show that. */
  readonly #changed = new Map<string, { what: 'made' | 'removed'; untilMs: number }>();
  #pausedUntilMs = 0;
  /** Since when on a monotonic clock control planes of owners have been first; undefined: none is being made. */
  #busySinceMs: number | undefined;

  constructor(services: Services) {
    this.#services = services;
  }

  /** Works until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { virtualClusters, templates, clock, logger } = this.#services;
    const stop = [
      virtualClusters.subscribe(() => this.#wakeup.signal()),
      templates.subscribe(() => this.#wakeup.signal()),
    ];
    try {
      while (!signal.aborted) {
        try {
          await this.#look(signal);
        } catch (error) {
          if (signal.aborted) break;
          logger.warn({ err: error }, `the warm pool cannot be kept: ${explain(error).message}`);
          await clock.sleep(lookEveryMs, signal).catch(() => undefined);
        }
        await this.#wakeup.waitFor(lookEveryMs, clock, signal).catch(() => undefined);
      }
    } finally {
      for (const each of stop) each();
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { clock, logger, settings, onWarmPool } = this.#services;
    const view = this.#view();
    const ready = view.members.filter(({ isReady }) => isReady).length;
    const wanted = view.templates.reduce((total, poolTemplate) => total + poolTemplate.wanted, 0);
    onWarmPool({ ready, other: view.members.length - ready, wanted });
    if (this.#hasUnseenChanges()) return;
    const step = nextStep(view);
    if (step.isGivingBack === true) {
      logger.info('memory is short: a control plane of the warm pool is given back');
      this.#pausedUntilMs = clock.monotonic() + pauseMs;
    }
    for (const vc of step.remove) {
      if (vc.status?.phase === 'Failed' || lacksMemory(vc))
        this.#pausedUntilMs = clock.monotonic() + failedPauseMs;
      await this.#remove(vc, signal);
    }
    if (step.add === undefined) return;
    this.#busySinceMs = undefined;
    const name = `warm-${this.#services.newId()}`;
    this.#note(name, 'made');
    const labels = { [labelKeys.warm]: 'true', [labelKeys.managedBy]: 'skerry' };
    const member: VirtualCluster = {
      apiVersion,
      kind: resources.virtualClusters.kind,
      metadata: { namespace: settings.namespace, name, labels },
      spec: { template: step.add },
    };
    await this.#services.client.create(resources.virtualClusters, member, { signal });
  }

  /** Not one that was given away meanwhile, or has become ready. */
  async #remove({ metadata }: VirtualCluster, signal: AbortSignal): Promise<void> {
    const { name = '', namespace, uid = '', resourceVersion = '' } = metadata;
    this.#note(name, 'removed');
    try {
      const options = { uid, resourceVersion, signal };
      await this.#services.client.delete(resources.virtualClusters, { namespace, name }, options);
    } catch (error) {
      this.#changed.delete(name);
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }

  #note(name: string, what: 'made' | 'removed'): void {
    this.#changed.set(name, { what, untilMs: this.#services.clock.monotonic() + unseenForMs });
  }

  /** Whether the store does not show yet what was changed last. */
  #hasUnseenChanges(): boolean {
    const { virtualClusters, clock, settings } = this.#services;
    for (const [name, { what, untilMs }] of this.#changed) {
      const vc = virtualClusters.get({ namespace: settings.namespace, name });
      const isThere = vc !== undefined && vc.metadata.deletionTimestamp === undefined;
      if (isThere === (what === 'made') || clock.monotonic() > untilMs) this.#changed.delete(name);
    }
    return this.#changed.size > 0;
  }

  #view(): PoolView {
    const { virtualClusters, settings, clock, machineMemory } = this.#services;
    const memory = machineMemory();
    const all = [...virtualClusters.list()];
    const owned = all.filter((vc) => !isWarmPoolMember(vc, settings.namespace));
    const choices = this.#choices();
    const unclaimed = all.filter(
      (vc) =>
        isWarmPoolMember(vc, settings.namespace) &&
        warmClaim(vc) === undefined &&
        this.#services.allocations.givenTo(vc) === undefined,
    );
    const isThere = ({ metadata }: VirtualCluster): boolean => metadata.deletionTimestamp === undefined;
    const members = unclaimed.filter(isThere).map((vc) => this.#member(vc, choices));
    return {
      templates: [...choices].map(([template, { wanted, choice }]) => ({
        template,
        wanted,
        bytes: memoryOf(choice.template.spec, settings.replicas),
      })),
      members,
      isBusy: this.#isBusy(owned),
      isShort: owned.some(lacksMemory) || members.some(({ vc }) => lacksMemory(vc)),
      isFreeing: !unclaimed.every(isThere),
      isPaused: clock.monotonic() < this.#pausedUntilMs,
      memory,
      limitBytes:
        settings.warmMemoryBytes ??
        (memory === undefined ? Number.POSITIVE_INFINITY : memory.totalBytes * defaultShare),
    };
  }

  /** An owner can have one be made without end, by editing what cannot be made. */
  #isBusy(owned: readonly VirtualCluster[]): boolean {
    const isMaking = owned.some(
      ({ status: { phase } = {} }) => phase === undefined || phase === 'Provisioning',
    );
    if (!isMaking) {
      this.#busySinceMs = undefined;
      return false;
    }
    const nowMs = this.#services.clock.monotonic();
    this.#busySinceMs ??= nowMs;
    return nowMs - this.#busySinceMs < busyForMs;
  }

  #member(vc: VirtualCluster, choices: Choices): Member {
    const { settings } = this.#services;
    const template = vc.spec?.template ?? '';
    const { choice } = choices.get(template) ?? {};
    const { phase, version, driver } = vc.status ?? {};
    const isReady = isAvailable(vc);
    const isOther =
      isReady && (version !== choice?.version || driver !== settings.driver || dnsOf(vc) !== settings.dns);
    const bytes = choice === undefined ? 0 : memoryOf(choice.template.spec, settings.replicas);
    return { vc, template, isReady, isOutdated: isStuck(phase) || isOther, bytes };
  }

  /** What a member of each template is made of, and how many are wanted. */
  #choices(): Choices {
    const { templates, settings } = this.#services;
    const byDefault = this.#choice();
    const choices: Choices = new Map();
    for (const { metadata, spec } of templates.list()) {
      const isDefault = metadata.name === byDefault?.template.metadata.name;
      const wanted = spec.warm ?? (isDefault ? settings.warm : 0);
      const choice = wanted > 0 ? this.#choice(metadata.name) : undefined;
      if (choice !== undefined) choices.set(metadata.name ?? '', { wanted, choice });
    }
    return choices;
  }

  /** Undefined: a VirtualCluster of this template could not be made. */
  #choice(template?: string): VersionChoice['choice'] | undefined {
    const { settings } = this.#services;
    const spec = template === undefined ? {} : { template };
    try {
      return versionChoice({ metadata: { namespace: settings.namespace }, spec }, this.#services).choice;
    } catch {
      return undefined;
    }
  }
}

/** What it is in does not end by itself. */
function isStuck(phase: VirtualClusterPhase | undefined): boolean {
  return (
    phase === 'Failed' ||
    phase === 'Cancelled' ||
    phase === 'Asleep' ||
    phase === 'Restoring' ||
    phase === 'Moving'
  );
}

const ofControlPlanes: readonly string[] = [
  'Ready',
  'APIServerReady',
  'ControllerManagerReady',
] satisfies ManagerConditionType[];

/** By the reason that a driver gives: messages may repeat what a tenant has written. */
export function lacksMemory({ status }: VirtualCluster): boolean {
  return (status?.conditions ?? []).some(
    ({ type, status: is, reason }) =>
      ofControlPlanes.includes(type) && is === 'False' && reason === insufficientMemory,
  );
}
