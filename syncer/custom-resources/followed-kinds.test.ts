import { describe, expect, it } from 'vitest';
import { annotationKeys, labelKeys } from '../../api/labels.ts';
import type { FollowedKinds } from './followed-kinds.ts';
import { CustomWorld, widgets } from './testing/custom-world.ts';

const name = 'widgets.example.com';

/** Another replica has made this for a tenant that it serves. */
function leave(world: CustomWorld, tenant: string): void {
  world.super.server.put(widgets, {
    metadata: {
      name: `of-${tenant}`,
      namespace: world.sides.shop,
      labels: { [labelKeys.tenant]: tenant },
      annotations: { [annotationKeys.uid]: `uid-of-${tenant}` },
    },
  });
}

/** Asks again whenever there may be another answer. */
async function found(followed: FollowedKinds, tenant: string): Promise<void> {
  while (!followed.hasLeft(name, tenant)) {
    await new Promise<void>((resolve) => {
      const unsubscribe = followed.subscribe(() => {
        unsubscribe();
        resolve();
      });
    });
  }
}

describe('what tenants have left in the super cluster', () => {
  it('is looked for again for a tenant that another replica has served meanwhile', async () => {
    await using world = await CustomWorld.start();
    const { followed } = world.sides;
    leave(world, 'first');
    await found(followed, 'first');
    expect(followed.hasLeft(name, 'second')).toBe(false);

    leave(world, 'second');
    followed.want('second', []);
    await found(followed, 'second');
  });
});
