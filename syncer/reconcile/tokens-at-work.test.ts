import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import { type KubeObject, resources } from '../../kube/index.ts';
import { tend } from './testing/disturbance.ts';
import { fastClock } from './testing/fast-clock.ts';
import { podWithTokens, type TokenSource, tokensIn } from './testing/token-pods.ts';
import { TwoSides } from './testing/two-sides.ts';

describe('the engine and tokens', () => {
  const prepare = (sides: TwoSides): void => {
    sides.super.server.put(resources.nodes, { metadata: { name: 'n1' } });
    sides.inShop(resources.serviceAccounts, { metadata: { name: 'robot' } });
  };
  const named = (name: string, sources?: readonly TokenSource[]): KubeObject => ({
    ...podWithTokens(sources),
    metadata: { name },
  });
  const tokenOf = (sides: TwoSides, name: string): string | undefined =>
    tokensIn(sides.inSuper(resources.secrets, `skerry-token-${name}`))['token-0'];
  const writes = (server: TwoSides['super']['server'], plural: string): string[] =>
    server.requests
      .filter((request) => request.plural === plural && !['list', 'watch'].includes(request.verb))
      .map((request) => `${request.verb} ${request.subresource ?? ''}`);
  const quiet = async ({ engine }: TwoSides): Promise<void> => {
    while (engine.depths().some((depth) => depth.live + depth.processing > 0)) await setImmediate();
  };
  /** The scheduler and the kubelets of the super cluster are at work until this holds. */
  const tendedUntil = (sides: TwoSides, predicate: () => boolean): Promise<void> =>
    sides.until(() => {
      tend(sides.super.server);
      return predicate();
    });

  it('ask once and write one Secret for each pod of a burst when it has a node, and nothing before or afterwards', async () => {
    await using sides = await TwoSides.start(prepare);
    // No more than may be with the scheduler at once: here nobody schedules them at first.
    const names = Array.from({ length: 30 }, (_, index) => `p${index}`);
    for (const name of names) sides.inShop(resources.pods, named(name));
    await sides.until(() => sides.super.server.list(resources.pods).length === names.length);
    await quiet(sides);
    expect(writes(sides.tenant.server, 'serviceaccounts')).toEqual([]);
    expect(writes(sides.super.server, 'secrets')).toEqual([]);
    await tendedUntil(sides, () => sides.super.server.list(resources.secrets).length === names.length);
    await quiet(sides);
    expect(writes(sides.tenant.server, 'serviceaccounts')).toEqual(names.map(() => 'create token'));
    expect(writes(sides.super.server, 'secrets')).toEqual(names.map(() => 'create '));
    expect(await sides.engine.resync(sides.state)).toEqual([]);
    const tokens = names.map((name) => tokenOf(sides, name));
    expect(new Set(tokens).size).toBe(names.length);
    for (const token of tokens) expect(token).toMatch(/\/n1\/$/);
  });

  it('renew again and again, by one syncer and the next', async () => {
    await using sides = await TwoSides.start(prepare, { clock: fastClock(1_000) });
    sides.inShop(resources.pods, named('web', [{ path: 'token', expirationSeconds: 600 }]));
    const seen = new Set<string>();
    const renewed = (count: number) => () => {
      const token = tokenOf(sides, 'web');
      if (token !== undefined) seen.add(token);
      return seen.size >= count;
    };
    await tendedUntil(sides, renewed(3));
    await sides.restart();
    await sides.until(renewed(5));
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
  });

  it('leave exactly one right Secret after 50 quick re-creations of a pod (rule 2)', async () => {
    await using sides = await TwoSides.start(prepare, { clock: fastClock(20) });
    let last: KubeObject | undefined;
    for (let round = 0; round < 50; round++) {
      sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
      last = sides.inShop(resources.pods, named('web'));
      // Now and then one gets as far as a token, of whichever pod that had the name.
      if (round % 9 === 0) await tendedUntil(sides, () => tokenOf(sides, 'web') !== undefined);
    }
    const bound = `/${last?.metadata.uid}/n1/`;
    await tendedUntil(sides, () => tokenOf(sides, 'web')?.endsWith(bound) === true);
    expect(sides.inSuper(resources.pods, 'web')?.metadata.annotations?.[annotationKeys.uid]).toBe(
      last?.metadata.uid,
    );
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
    sides.tenant.server.remove(resources.pods, { namespace: 'shop', name: 'web' });
    await tendedUntil(sides, () => sides.super.server.list(resources.secrets).length === 0);
  });

  it("keep the tenant's own Secret of such a name apart", async () => {
    await using sides = await TwoSides.start(prepare);
    sides.inShop(resources.secrets, {
      metadata: { name: 'skerry-token-web', labels: { [labelKeys.sync]: 'true' } },
      data: { mine: 'eA==' },
    });
    sides.inShop(resources.pods, named('web'));
    await tendedUntil(sides, () => tokenOf(sides, 'web') !== undefined);
    expect(tokenOf(sides, 'web')).toMatch(/^token-1/);
    expect(sides.super.server.list(resources.secrets)).toHaveLength(1);
  });
});
