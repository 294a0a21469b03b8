import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { superWatches } from './controllers/registry.ts';
import { allKinds } from './kinds/registry.ts';

interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

const file = join(import.meta.dirname, '..', 'deploy', 'chart', 'rights', 'syncer.yaml');
const { cluster } = parse(readFileSync(file, 'utf8')) as { cluster: Rule[] };

function may(verb: string, group: string, resource: string): boolean {
  return cluster.some(
    ({ apiGroups, resources, verbs }) =>
      apiGroups.includes(group) && resources.includes(resource) && verbs.includes(verb),
  );
}

describe('the rights of the syncer', () => {
  it.each(allKinds.map((kind) => [kind.name, kind] as const))(
    'let it follow %s, and write them where they go down',
    (_, kind) => {
      const { group, plural } = kind.resource;
      for (const verb of ['get', 'list', 'watch'])
        expect([verb, may(verb, group, plural)]).toEqual([verb, true]);
      const isDown = kind.direction === 'down';
      for (const verb of ['create', 'patch', 'delete'])
        expect([verb, may(verb, group, plural)]).toEqual([verb, isDown]);
      const isWhole = kind.direction === 'down' && kind.payload !== undefined;
      expect(['update', may('update', group, plural)]).toEqual(['update', isWhole]);
    },
  );

  it.each(superWatches.map((watch) => [watch.name, watch] as const))(
    'let it read the %s of the super cluster',
    (_, { resource: { group, plural } }) => {
      for (const verb of ['get', 'list', 'watch'])
        expect([verb, may(verb, group, plural)]).toEqual([verb, true]);
    },
  );
});
