import { describe, expect, it } from 'vitest';
import { isRegistry, releaseCommands } from './release.ts';

describe('a release', () => {
  const release = { registry: 'registry.example.com/team', version: '0.1.0', chart: '/tmp/skerry-0.1.0.tgz' };

  it('builds both images before it pushes anything, and the chart last', () => {
    expect(releaseCommands(release).map((command) => command.join(' '))).toEqual([
      'docker build -f deploy/Dockerfile -t registry.example.com/team/skerry:0.1.0 .',
      'docker build -f deploy/Dockerfile -t registry.example.com/team/skerry-manager:0.1.0 --target manager .',
      'docker push registry.example.com/team/skerry:0.1.0',
      'docker push registry.example.com/team/skerry-manager:0.1.0',
      'helm push /tmp/skerry-0.1.0.tgz oci://registry.example.com/team/charts',
    ]);
    expect(releaseCommands(release, true)).toHaveLength(1);
  });

  it('goes to a registry as images name it', () => {
    for (const good of ['localhost:5000', 'registry.example.com', 'r.example.com:5000/a/b-c'])
      expect(isRegistry(good), good).toBe(true);
    for (const bad of ['', 'https://r.example.com', 'r.example.com/', 'R.example.com', '-x', 'a b', 'r/../x'])
      expect(isRegistry(bad), bad).toBe(false);
  });
});
