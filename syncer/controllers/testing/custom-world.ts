import { labelKeys } from '../../../api/labels.ts';
import { type Clock, type KubeObject, Reflector, resource, resources } from '../../../kube/index.ts';
import { fastClock } from '../../../kube/testing/fast-clock.ts';
import type { FakeCluster } from '../../../kube/testing/index.ts';
import type { TenantSide } from '../../reconcile/testing/tenant-side.ts';
import { TwoSides } from '../../reconcile/testing/two-sides.ts';
import { TenantCustomResources } from '../custom-resources.ts';

export const widgets = resource('example.com', 'v1', 'widgets', 'Widget', true);
export const gadgets = resource('example.com', 'v1', 'gadgets', 'Gadget', true);

const definitions = resources.customResourceDefinitions;

/**
 * An engine between two fake servers, and what sees to custom resources. Fake servers take any resource, defined or
 * not.
 */
export class CustomWorld implements AsyncDisposable {
  readonly sides: TwoSides;
  readonly #clock: Clock;
  readonly #served = new Map<
    TenantSide,
    { custom: TenantCustomResources; stop: AbortController; ended: Promise<void> }
  >();

  private constructor(sides: TwoSides, clock: Clock) {
    this.sides = sides;
    this.#clock = clock;
  }

  /** With a namespace `shop` on both sides, and these definitions published. */
  static async start(published: readonly (typeof widgets)[] = [widgets]): Promise<CustomWorld> {
    const clock = fastClock(50);
    const sides = await TwoSides.start(
      ({ super: there }) => {
        for (const each of published) there.server.put(definitions, definitionOf(each));
      },
      { clock },
    );
    const world = new CustomWorld(sides, clock);
    world.serve(sides.first);
    return world;
  }

  get tenant(): FakeCluster {
    return this.sides.tenant;
  }

  get super(): FakeCluster {
    return this.sides.super;
  }

  get custom(): TenantCustomResources {
    return this.#served.get(this.sides.first)?.custom as TenantCustomResources;
  }

  /** Begins to see to the custom resources of a tenant that has joined. */
  serve(tenant: TenantSide): TenantCustomResources {
    const { engine, superCaches, customResources: informers } = this.sides;
    const state = this.sides.stateOf(tenant);
    const custom = new TenantCustomResources({
      state,
      engine,
      informers,
      superCaches,
      reflector: (kind, store) =>
        new Reflector({
          client: state.client,
          resource: kind.resource,
          store,
          clock: this.#clock,
          consistentStart: true,
          onProblem: () => undefined,
        }),
      nowMs: () => this.#clock.monotonic(),
    });
    const stop = new AbortController();
    this.#served.set(tenant, { custom, stop, ended: custom.run(stop.signal) });
    return custom;
  }

  /** Another syncer takes over, with other settings of the tenant. */
  async restart(names: readonly string[]): Promise<void> {
    await this.#end();
    this.sides.first.info = { ...this.sides.first.info, customResources: names };
    await this.sides.restart();
    this.serve(this.sides.first);
  }

  /** Looks as often as a session does, until this holds. */
  async look(until: () => boolean): Promise<void> {
    while (!until()) {
      this.custom.reconcile();
      await this.#clock.sleep(10_000);
    }
  }

  /** The tenant's settings name these from now on. */
  optIn(names: readonly string[], tenant = this.sides.first): void {
    const state = this.sides.stateOf(tenant);
    state.updateInfo({ ...state.info, customResources: names });
    this.#served.get(tenant)?.custom.reconcile();
    this.sides.engine.requeue(state);
  }

  /** Does what the API server does with a new definition, as soon as the copy is there. */
  async establish(each = widgets, { server } = this.tenant): Promise<KubeObject> {
    const ref = { name: `${each.plural}.${each.group}` };
    await this.sides.until(() => server.get(definitions, ref) !== undefined);
    const status = {
      conditions: [{ type: 'Established', status: 'True' }],
      storedVersions: [each.version],
    };
    return server.put(definitions, { ...(server.get(definitions, ref) as KubeObject), status });
  }

  /** Makes or changes a widget of the tenant. */
  widget(name: string, parts: Record<string, unknown> = {}, each = widgets): KubeObject {
    return this.sides.inShop(each, { metadata: { name }, spec: { size: 1 }, ...parts });
  }

  superWidget(name: string, each = widgets): KubeObject | undefined {
    return this.sides.inSuper(each, name);
  }

  superWidgets(each = widgets): KubeObject[] {
    return this.super.server.list(each);
  }

  /** Changes the definition in the super cluster. */
  redefine(change: (definition: KubeObject) => KubeObject): void {
    const { server } = this.super;
    server.put(definitions, change(server.get(definitions, { name: 'widgets.example.com' }) as KubeObject));
  }

  /** What the API server does when the definition is deleted: its objects go first. */
  deleteDefinition({ server } = this.tenant): void {
    const ref = { name: 'widgets.example.com' };
    const present = server.get(definitions, ref) as KubeObject;
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    server.put(definitions, { ...present, metadata: { ...present.metadata, deletionTimestamp } });
    for (const { metadata } of server.list(widgets)) {
      server.remove(widgets, { namespace: metadata.namespace, name: metadata.name ?? '' });
    }
    server.remove(definitions, ref);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    await this.sides[Symbol.asyncDispose]();
  }

  async #end(): Promise<void> {
    const served = [...this.#served.values()];
    this.#served.clear();
    for (const { stop } of served) stop.abort(new Error('the syncer ends'));
    await Promise.all(served.map(({ ended }) => ended));
  }
}

export function definitionOf(each: typeof widgets, spec: Record<string, unknown> = {}): KubeObject {
  const { group, version, plural, kind } = each;
  return {
    metadata: { name: `${plural}.${group}`, labels: { [labelKeys.public]: 'true' } },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, kind },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object' } },
        },
      ],
      conversion: { strategy: 'None' },
      ...spec,
    },
  };
}
