import { expect, it } from 'vitest';
import { labelKeys } from '../../../api/labels.ts';
import { type ObjectMeta, resources } from '../../../kube/index.ts';
import { startFakeCluster } from '../../../kube/testing/index.ts';
import { removeObject } from './gc.ts';

const { signal } = new AbortController();
const ref = { name: 'team-lost-web' };
const namespaceOf = (tenant: string) => ({ metadata: { ...ref, labels: { [labelKeys.tenant]: tenant } } });
const isOfLost = ({ labels }: ObjectMeta): boolean => labels?.[labelKeys.tenant] === 'lost';

it('gc deletes what is left of a tenant, and takes what is gone for deleted', async () => {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  server.put(resources.namespaces, namespaceOf('lost'));
  await removeObject(client, resources.namespaces, ref, isOfLost, signal);
  expect(server.get(resources.namespaces, ref)).toBeUndefined();
  await removeObject(client, resources.namespaces, ref, isOfLost, signal);
});

it('gc leaves an object of another tenant that has taken the name since', async () => {
  await using cluster = await startFakeCluster();
  const { server, client } = cluster;
  server.put(resources.namespaces, namespaceOf('other'));
  await removeObject(client, resources.namespaces, ref, isOfLost, signal);
  expect(server.get(resources.namespaces, ref)).toBeDefined();
  // Or takes it after the last look.
  const isStill = (metadata: ObjectMeta): boolean => {
    server.remove(resources.namespaces, ref);
    server.put(resources.namespaces, namespaceOf('other'));
    return isOfLost(metadata);
  };
  server.put(resources.namespaces, namespaceOf('lost'));
  await expect(removeObject(client, resources.namespaces, ref, isStill, signal)).rejects.toMatchObject({
    code: 409,
  });
  expect(server.get(resources.namespaces, ref)?.metadata.labels).toEqual({ [labelKeys.tenant]: 'other' });
});
