import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { apiTypes } from '../kube/api-types.ts';
import { type Description, typesOf } from '../scripts/api-types.ts';
import { World } from './harness/world.ts';

let world: World;

beforeAll(() => {
  world = new World(inject('stack'));
});

afterAll(() => world?.close());

/**
 * Each new field is one more thing that a tenant can ask for: think about what it lets it do, refuse it in
 * syncer/kinds/pods/validation.ts or syncer/kinds/services/validation.ts where it must, then run scripts/api-types.ts.
 */
it('fields of pods and Services are those that the API server describes', async () => {
  const answer = await world.superCluster.kubectl('get', '--raw', '/openapi/v3/api/v1');
  expect(typesOf(JSON.parse(answer) as Description)).toEqual(apiTypes);
});
