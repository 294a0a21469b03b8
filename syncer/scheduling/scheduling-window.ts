import { requireAtLeast, WindowSize, type WindowSizeOptions } from './window-size.ts';

/**
 * What the super cluster's scheduler has to do with a pod.
 *
 * - `waiting`: it has yet to look at it.
 * - `placed`: it has a node.
 * - `refused`: it was looked at, and no node would do, or something holds it back; looked at again some time.
 * - `none`: nothing (any more): the pod has ended, is on its way out, or another scheduler looks after it.
 */
export type PodState = 'waiting' | 'placed' | 'refused' | 'none';

/** First come, first served, with removal from the middle. All in O(1), however many are in it. */
export class FifoSet<Item> {
  readonly #items = new Set<Item>();
  /** Goes on where it stopped: an iteration from the start would walk over all that have left. */
  #next = this.#items.values();

  get size(): number {
    return this.#items.size;
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  add(item: Item): void {
    this.#items.add(item);
  }

  remove(item: Item): void {
    this.#items.delete(item);
  }

  /** Removes and returns the first. */
  shift(): Item | undefined {
    while (this.#items.size > 0) {
      const { value, done } = this.#next.next();
      if (done === true) {
        this.#next = this.#items.values();
        continue;
      }
      this.#items.delete(value);
      return value;
    }
    return undefined;
  }
}

/**
 * Where a pod of a tenant stands.
 *
 * - `parked`: it waits for a slot in the window.
 * - `granted`: it has one, and its key is queued.
 * - `creating`: it is being created.
 * - `waiting`: the super cluster has it, and the scheduler has yet to look at it.
 * - `refused`: the scheduler could not place it. It is out of the window and counts against the tenant's other limit.
 */
type Phase = 'parked' | 'granted' | 'creating' | 'waiting' | 'refused';

class SchedulingSlot {
  readonly tenant: TenantSlots;
  readonly id: string;
  phase: Phase;
  /** Asked for or granted since the last reconcile of its key began; else it is released when that ends. */
  kept = true;
  /** When it came to the scheduler; undefined: not observed. */
  since: number | undefined = undefined;
  /** Since when it is known to wait, for the scheduler or for its own tenant. */
  knownSince: number | undefined = undefined;
  /** Pods in the window when it came in. */
  inUse = 0;
  /** It was given to a tenant with a backlog. */
  ofBacklog = false;
  /** It counts against what those may have together. */
  isShared = false;
  /** How many such there were when it came in. */
  inUseOfBacklog = 0;
  /** It was given at once to a tenant without a backlog, and there is no pod yet. */
  isLight = false;

  constructor(tenant: TenantSlots, id: string, phase: Phase) {
    this.tenant = tenant;
    this.id = id;
    this.phase = phase;
  }
}

/** State of one tenant. */
class TenantSlots {
  readonly uid: string;
  weight: number;
  readonly slots = new Map<string, SchedulingSlot>();
  readonly parked = new FifoSet<SchedulingSlot>();
  /** Granted, creating and waiting. */
  active = 0;
  refused = 0;
  /** It has not used the slots that it got, and has asked for none since. */
  isStalled = false;
  /** Sequence number of the last slot that it got: among equals, the tenant with the lowest is next. */
  turn = 0;
  /** When it was last seen with more than the syncer can do for it at once. */
  backlogAt = Number.NEGATIVE_INFINITY;
  /** When a pod of it was last created that had got its slot at once, while the tenant had no backlog. */
  lightAt = Number.NEGATIVE_INFINITY;
  /** Virtual time of its slots among those that tenants with a backlog share: the least is next. */
  virtualTime = 0;

  constructor(uid: string, weight: number) {
    this.uid = uid;
    this.weight = weight;
  }
}

function isActive(phase: Phase): boolean {
  return phase === 'granted' || phase === 'creating' || phase === 'waiting';
}

interface SchedulingWindowOptions {
  size?: WindowSizeOptions;
  /** What tenants with a backlog have together while others have none. Default: from 1 to 64, with a target of 10 ms. */
  backlogSize?: WindowSizeOptions;
  /** Pods of one tenant that the scheduler could not place, at most; beyond that none of it are created. Default 1,000. */
  maxRefused?: number;
  /** A pod of which the scheduler says nothing for so long counts as refused: it may wait for others to come. Default 10,000. */
  overdueMs?: number;
  /** Called when a parked pod has got a slot: its key has to be queued. */
  wake: (tenant: string, id: string) => void;
  /** How many items of a tenant wait for a worker of the syncer. Default: none. */
  waiting?: (tenant: string) => number;
  /** Called when a slot begins to rest: `nextRestEndsAt` may answer differently. */
  onRest?: () => void;
}

/** A slot that its tenant has not used for so long goes to another tenant. */
const stalledMs = 2_000;
/** A tenant of which so many items wait for a worker has a backlog. */
const longQueue = 8;
/** What a tenant was seen to be, with a backlog or without, holds for so long. */
const rememberedMs = 1_000;
const backlogSize = { floor: 1, ceiling: 64, initial: 2, targetMs: 10 };
/** A slot rests as long as the scheduler took, within these. */
const shortestRestMs = 5;
const longestRestMs = 1_000;

/** `full`: parked, as too many pods of the tenant cannot be placed. */
export type WindowDecision = 'go' | 'parked' | 'full';

export interface TenantCounts {
  tenant: string;
  parked: number;
  /** With the scheduler, or on the way there. */
  scheduling: number;
  refused: number;
}

/**
 * How many pods of each tenant are with the super cluster's scheduler at once. That is one queue for all, first come,
 * first served: a tenant that fills it makes all others wait. Pure: time and events come from outside.
 *
 * - A pod has a slot from when it may be created until the scheduler has said something of it, or it is gone.
 * - Slots go to the tenant with the fewest for its weight, and within a tenant in the order in which it asked.
 * - A tenant without a slot gets one at once, however full the window is, unless it has a backlog and others come (below).
 * - A tenant that does not use the slots that it gets, as its API server hangs, has one at a time until it does.
 * - A pod without a slot is parked: nothing is done for it until one is free.
 * - While pods of other tenants come that find a slot at once, tenants with a backlog share a smaller window, at most half
 *   of it, in which the scheduler hardly queues, and each of their slots rests after use for as long as it took. A pod is
 *   work for the super cluster long after it has a node, and the slower all is, the longer they rest (sync rule
 *   `backlog-gives-way`).
 */
export class SchedulingWindow {
  readonly #size: WindowSize;
  readonly #backlogSize: WindowSize;
  readonly #maxRefused: number;
  readonly #overdueMs: number;
  readonly #wake: SchedulingWindowOptions['wake'];
  readonly #tenants = new Map<string, TenantSlots>();
  /** Tenants with parked pods. */
  readonly #asking = new Set<TenantSlots>();
  readonly #waiting: (tenant: string) => number;
  readonly #onRest: (() => void) | undefined;
  /** Tenants that may have been without a backlog when a pod of theirs came. */
  readonly #light = new Set<TenantSlots>();
  #active = 0;
  #activeOfBacklog = 0;
  /** When the slots end their rest that do. */
  #rests: number[] = [];
  /** That of the tenant that last got one of these slots; never falls. */
  #virtualTime = 0;
  #turn = 0;
  /** The latest time that a caller has passed. */
  #now = 0;

  constructor(options: SchedulingWindowOptions) {
    this.#size = new WindowSize(options.size);
    this.#backlogSize = new WindowSize(options.backlogSize ?? backlogSize);
    this.#maxRefused = requireAtLeast('maxRefused', options.maxRefused ?? 1_000, 1);
    this.#overdueMs = requireAtLeast('overdueMs', options.overdueMs ?? 10_000, 1);
    this.#wake = options.wake;
    this.#waiting = options.waiting ?? (() => 0);
    this.#onRest = options.onRest;
  }

  get size(): number {
    return this.#size.size;
  }

  /** Slots in use. */
  get inUse(): number {
    return this.#active;
  }

  /** Whether a pod waits for a slot that the pods of all tenants have in use. */
  get isFull(): boolean {
    if (this.#active < this.#size.size) return false;
    for (const { isStalled, refused } of this.#asking)
      if (!isStalled && refused < this.#maxRefused) return true;
    return false;
  }

  /** Adds a tenant, or changes its weight. Calls for tenants that were not added have no effect. */
  join(uid: string, weight: number): void {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined) this.#tenants.set(uid, new TenantSlots(uid, weight));
    else tenant.weight = weight;
    this.#grant();
  }

  leave(uid: string): void {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined) return;
    this.#active -= tenant.active;
    for (const { isShared, phase } of tenant.slots.values())
      if (isShared && isActive(phase)) this.#activeOfBacklog -= 1;
    this.#tenants.delete(uid);
    this.#asking.delete(tenant);
    this.#light.delete(tenant);
    this.#grant();
  }

  /** A pod is to be created: it is parked where it cannot be now, as by `ask`. `go`: nothing is taken, `ask` may. */
  mayAsk(uid: string, id: string, now: number): WindowDecision {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined) return 'go';
    this.#now = now;
    const slot = tenant.slots.get(id);
    const mayGo = slot === undefined ? this.#mayEnter(tenant) : slot.phase !== 'parked';
    return mayGo ? 'go' : this.ask(uid, id, now);
  }

  /** A pod is about to be created. */
  ask(uid: string, id: string, now: number): WindowDecision {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined) return 'go';
    this.#now = now;
    const slot = tenant.slots.get(id) ?? this.#enter(tenant, id);
    slot.kept = true;
    if (tenant.isStalled) this.#catchUp(tenant);
    tenant.isStalled = false;
    if (slot.phase === 'granted') this.#use(slot);
    if (slot.phase !== 'parked') return 'go';
    return tenant.refused >= this.#maxRefused ? 'full' : 'parked';
  }

  /** A reconcile of this key begins. */
  began(uid: string, id: string): void {
    const slot = this.#tenants.get(uid)?.slots.get(id);
    if (slot !== undefined) slot.kept = false;
  }

  /** It has ended, and has left a pod in the super cluster or not, as far as is known. */
  ended(uid: string, id: string, exists: boolean, now: number): void {
    const slot = this.#tenants.get(uid)?.slots.get(id);
    if (slot === undefined) return;
    this.#now = now;
    if (slot.phase === 'creating') {
      if (exists) {
        if (slot.isLight) this.#sawLight(slot.tenant);
        this.#await(slot, now);
      } else this.#drop(slot);
    } else if (!slot.kept && (slot.phase === 'granted' || slot.phase === 'parked')) {
      this.#drop(slot);
    }
    this.#grant();
  }

  /**
   * The super cluster shows a pod, or that it is gone (undefined).
   * @param isNew it appeared just now, so that its latency can be measured
   */
  observe(uid: string, id: string, state: PodState | undefined, now: number, isNew = true): void {
    const tenant = this.#tenants.get(uid);
    if (tenant === undefined) return;
    this.#now = now;
    const slot = tenant.slots.get(id);
    // The watch may be ahead of the end of the run that has created it.
    if (state !== undefined && slot?.phase === 'creating' && slot.isLight) this.#sawLight(tenant);
    if (state === 'waiting' || state === 'refused') {
      const known = slot ?? this.#add(tenant, id, 'waiting');
      if (known.phase === 'refused' && state === 'waiting') return;
      if (state === 'waiting') this.#await(known, isNew ? now : undefined);
      else {
        this.#recordLatency(known, now);
        this.#move(known, 'refused');
      }
    } else if (slot !== undefined && isThere(slot.phase, state === undefined)) {
      if (state === 'placed') this.#recordLatency(slot, now);
      this.#drop(slot);
    }
    this.#grant();
  }

  /** Removes pods that the scheduler does not answer for, and unused tenants. To be called once a second or so. */
  sweep(now: number): void {
    this.#now = now;
    for (const tenant of this.#tenants.values()) {
      if (tenant.active === 0) continue;
      for (const slot of tenant.slots.values()) {
        if (isActive(slot.phase)) this.#countOut(slot, now);
        if (slot.phase === 'granted') this.#takeBack(slot, now);
        if (slot.phase !== 'waiting') continue;
        slot.knownSince ??= now;
        if (now - slot.knownSince < this.#overdueMs) continue;
        this.#recordLatency(slot, now, true);
        this.#move(slot, 'refused');
      }
    }
    this.#grant();
  }

  /** When the first of the slots that rest can be used again; undefined: none rests. */
  nextRestEndsAt(): number | undefined {
    return this.#rests.length === 0 ? undefined : Math.min(...this.#rests);
  }

  /** Gives out the slots whose rest has ended. */
  endRests(now: number): void {
    this.#now = now;
    this.#rests = this.#rests.filter((endsAt) => endsAt > now);
    this.#grant();
  }

  /** Every pod of a tenant that has a slot, or waits for one. */
  *ids(uid: string): Generator<{ id: string; phase: Phase }> {
    for (const { id, phase } of [...(this.#tenants.get(uid)?.slots.values() ?? [])]) yield { id, phase };
  }

  isParked(uid: string, id: string): boolean {
    return this.#tenants.get(uid)?.slots.get(id)?.phase === 'parked';
  }

  counts(): TenantCounts[] {
    return Array.from(this.#tenants.values(), ({ uid, parked, active, refused }) => ({
      tenant: uid,
      parked: parked.size,
      scheduling: active,
      refused,
    }));
  }

  #enter(tenant: TenantSlots, id: string): SchedulingSlot {
    if (!this.#mayEnter(tenant)) return this.#add(tenant, id, 'parked');
    const slot = new SchedulingSlot(tenant, id, 'creating');
    if (this.#hasBacklog(tenant)) this.#share(slot);
    else slot.isLight = true;
    return this.#enroll(slot);
  }

  #mayEnter(tenant: TenantSlots): boolean {
    // Parked pods came first; they would not be parked if there were room.
    return tenant.parked.size === 0 && this.#hasRoom(tenant);
  }

  #add(tenant: TenantSlots, id: string, phase: Phase): SchedulingSlot {
    return this.#enroll(new SchedulingSlot(tenant, id, phase));
  }

  #enroll(slot: SchedulingSlot): SchedulingSlot {
    slot.tenant.slots.set(slot.id, slot);
    this.#count(slot, 1);
    return slot;
  }

  /** Counts a slot, before it is taken, among those that tenants with a backlog have together. */
  #share(slot: SchedulingSlot): void {
    const { tenant } = slot;
    slot.ofBacklog = true;
    // One that makes nothing of its slots keeps none from others.
    slot.isShared = !tenant.isStalled;
    if (!this.#isAnyLight()) return;
    this.#virtualTime = Math.max(this.#virtualTime, tenant.virtualTime);
    tenant.virtualTime += 1 / tenant.weight;
  }

  /** It gets no credit for a time in which it could have no slot: with none parked, stalled, or with too many refused. */
  #catchUp(tenant: TenantSlots): void {
    tenant.virtualTime = Math.max(tenant.virtualTime, this.#virtualTime);
  }

  #sawLight(tenant: TenantSlots): void {
    tenant.lightAt = this.#now;
    this.#light.add(tenant);
  }

  #drop(slot: SchedulingSlot): void {
    this.#count(slot, -1);
    slot.tenant.slots.delete(slot.id);
  }

  #move(slot: SchedulingSlot, phase: Phase): void {
    if (slot.phase === phase) return;
    if (isActive(slot.phase) && isActive(phase)) {
      slot.phase = phase;
      slot.inUse = this.#active;
      slot.inUseOfBacklog = this.#activeOfBacklog;
      return;
    }
    this.#count(slot, -1);
    slot.phase = phase;
    this.#count(slot, 1);
  }

  #count(slot: SchedulingSlot, by: 1 | -1): void {
    const { tenant, phase } = slot;
    if (phase === 'refused') {
      tenant.refused += by;
      if (by === -1 && tenant.refused === this.#maxRefused - 1) this.#catchUp(tenant);
    } else if (isActive(phase)) {
      tenant.active += by;
      this.#active += by;
      if (slot.isShared) this.#activeOfBacklog += by;
      if (by === 1) {
        slot.inUse = this.#active;
        slot.inUseOfBacklog = this.#activeOfBacklog;
        tenant.turn = ++this.#turn;
      }
    } else {
      tenant.backlogAt = this.#now;
      if (by === 1 && tenant.parked.size === 0) this.#catchUp(tenant);
      if (by === 1) tenant.parked.add(slot);
      else tenant.parked.remove(slot);
      if (tenant.parked.size > 0) this.#asking.add(tenant);
      else this.#asking.delete(tenant);
    }
  }

  #await(slot: SchedulingSlot, now: number | undefined): void {
    // How long it took to create says nothing of the scheduler.
    if (slot.phase === 'creating') slot.knownSince = undefined;
    this.#move(slot, 'waiting');
    slot.since ??= now;
    slot.knownSince ??= now;
  }

  #use(slot: SchedulingSlot): void {
    slot.knownSince = undefined;
    this.#move(slot, 'creating');
  }

  /** Its key is queued and no worker has taken it: it goes to the end of the queue. */
  #takeBack(slot: SchedulingSlot, now: number): void {
    slot.knownSince ??= now;
    if (now - slot.knownSince < stalledMs) return;
    slot.knownSince = undefined;
    slot.tenant.isStalled = true;
    this.#move(slot, 'parked');
  }

  /** Others with a backlog do not wait for a pod of which nothing is heard. */
  #countOut(slot: SchedulingSlot, now: number): void {
    slot.knownSince ??= now;
    if (!slot.isShared || now - slot.knownSince < rememberedMs) return;
    slot.isShared = false;
    this.#activeOfBacklog -= 1;
  }

  #recordLatency(slot: SchedulingSlot, now: number, silent = false): void {
    if (slot.phase !== 'waiting' || slot.since === undefined) return;
    const latencyMs = now - slot.since;
    const limited = [...this.#asking].some(({ refused }) => refused < this.#maxRefused);
    const givesWay = this.#isAnyLight();
    if (!slot.ofBacklog || !givesWay) {
      // What waits for the smaller window has no slot sooner in a larger one, unless half of that is what holds it.
      const isHeld = !givesWay || this.#backlogSize.size > this.#size.size / 2;
      this.#size.add({ latencyMs, inUse: slot.inUse, limited: limited && isHeld, silent }, now);
      return;
    }
    this.#backlogSize.add({ latencyMs, inUse: slot.inUseOfBacklog, limited, silent }, now);
    if (silent) return;
    this.#rests.push(now + Math.min(longestRestMs, Math.max(shortestRestMs, latencyMs)));
    this.#onRest?.();
  }

  #hasRoom(tenant: TenantSlots): boolean {
    if (tenant.refused >= this.#maxRefused) return false;
    if (tenant.active > 0 && (tenant.isStalled || this.#active >= this.#size.size)) return false;
    return tenant.isStalled || !this.#hasBacklog(tenant) || !this.#isAnyLight() || this.#hasRoomForBacklog();
  }

  #hasRoomForBacklog(): boolean {
    // The other half is for those that come.
    const size = Math.min(this.#backlogSize.size, Math.max(1, Math.floor(this.#size.size / 2)));
    let taken = this.#activeOfBacklog;
    for (const endsAt of this.#rests) if (endsAt > this.#now) taken += 1;
    return taken < size;
  }

  #hasBacklog(tenant: TenantSlots): boolean {
    if (tenant.parked.size > 0 || this.#waiting(tenant.uid) >= longQueue) tenant.backlogAt = this.#now;
    return this.#now - tenant.backlogAt < rememberedMs;
  }

  /** Whether pods came lately that had to wait for no others of their tenant. */
  #isAnyLight(): boolean {
    for (const tenant of this.#light) {
      if (this.#now - tenant.lightAt < rememberedMs && !this.#hasBacklog(tenant)) return true;
      this.#light.delete(tenant);
    }
    return false;
  }

  #grant(): void {
    for (;;) {
      // Of few slots a tenant of little weight would never get one, if the number that each has decided.
      const goesFirst = this.#isAnyLight() ? hadLess : goesBefore;
      let next: TenantSlots | undefined;
      for (const tenant of this.#asking) {
        if (this.#hasRoom(tenant) && (next === undefined || goesFirst(tenant, next))) next = tenant;
      }
      const slot = next?.parked.shift();
      if (next === undefined || slot === undefined) return;
      this.#share(slot);
      this.#move(slot, 'granted');
      slot.kept = true;
      this.#wake(next.uid, slot.id);
    }
  }
}

/** Until this pod was seen, what the super cluster shows may be an earlier pod of the same name. */
function isThere(phase: Phase, isGone: boolean): boolean {
  return phase === 'waiting' || phase === 'refused' || (phase === 'creating' && !isGone);
}

/** The tenant that would have fewer slots for its weight with one more; of equals, the one that has waited longer. */
function goesBefore(one: TenantSlots, other: TenantSlots): boolean {
  const difference = (one.active + 1) / one.weight - (other.active + 1) / other.weight;
  return difference === 0 ? one.turn < other.turn : difference < 0;
}

/** The tenant that has had less for its weight; of equals, the one that has waited longer. */
function hadLess(one: TenantSlots, other: TenantSlots): boolean {
  return one.virtualTime === other.virtualTime ? one.turn < other.turn : one.virtualTime < other.virtualTime;
}
