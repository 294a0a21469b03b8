import { expect, it } from 'vitest';
import type { KubeObject, Resource } from '../../kube/index.ts';
import { RequeueAfter } from './errors.ts';
import { removalSteps } from './removal.ts';
import type { Services } from './services.ts';
import type { Tenant } from './tenant.ts';

const tenant = { uid: 'uid-a', signal: new AbortController().signal } as Tenant;

/** Runs a step with these objects of the tenant: what it has deleted, and what it waits for. */
async function run(stepName: string, items: readonly KubeObject[]) {
  const lists: unknown[] = [];
  const deleted: unknown[] = [];
  const client = {
    list: async ({ plural }: Resource, { labelSelector }: { labelSelector: string }) => {
      lists.push([plural, labelSelector]);
      return { items };
    },
    delete: async ({ plural }: Resource, { name }: { name: string }, { uid }: { uid?: string }) => {
      deleted.push([plural, name, uid]);
    },
  };
  const step = removalSteps.find(({ name }) => name === stepName);
  const waits = await step?.run(tenant, { client } as unknown as Services).then(
    () => undefined,
    (error: unknown) => error,
  );
  return { lists, deleted, waits };
}

const object = (name: string, more: object = {}): KubeObject => ({
  metadata: { name, uid: `uid-${name}` },
  ...more,
});

it.each([
  ['super-namespaces', 'namespaces'],
  ['super-leftovers', 'persistentvolumes'],
])('the step %s deletes what has the label of this UID, as that very object, once', async (step, plural) => {
  const leaving = object('leaving');
  leaving.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
  const { lists, deleted, waits } = await run(step, [object('one'), leaving]);
  expect(lists).toEqual([[plural, 'skerry.dev/tenant=uid-a']]);
  expect(deleted).toEqual([[plural, 'one', 'uid-one']]);
  expect(waits).toBeInstanceOf(RequeueAfter);
  expect((await run(step, [])).waits).toBeUndefined();
});

it('a deletion says what it waits for, three by name, and why the first that says so is stuck', async () => {
  const conditions = [
    { type: 'NamespaceDeletionDiscoveryFailure', status: 'False', message: 'All resources are found.' },
    { type: 'NamespaceFinalizersRemaining', status: 'True', message: 'example.com/hold in 1 resource.' },
  ];
  const items = [
    ...['a', 'b', 'c', 'd'].map((name) => object(name)),
    object('e', { status: { conditions } }),
  ];
  expect((await run('super-namespaces', items)).waits).toMatchObject({
    message: 'Waiting until namespaces are gone: a, b, c and 2 more. example.com/hold in 1 resource.',
  });
});
