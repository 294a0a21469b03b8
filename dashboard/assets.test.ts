import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Assets, loadAssets } from './assets.ts';

describe('the page', () => {
  let assets: Assets;
  beforeAll(async () => {
    assets = await loadAssets(join(import.meta.dirname, 'page'));
  });

  const text = (name: string): string => assets.files.get(name)?.plain.toString() ?? '';

  it('weighs less than 60 KB, compressed', () => {
    const sizes = [...assets.files.values()].map(({ br }) => br.length);
    expect(sizes.reduce((sum, each) => sum + each, 0)).toBeLessThan(60 * 1_024);
  });

  it('imports only what is served', () => {
    const [, map = '{}'] = /<script type="importmap">(.*?)<\/script>/.exec(text('index.html')) ?? [];
    const named = new Map(Object.entries((JSON.parse(map) as { imports: Record<string, string> }).imports));
    const missing = [...assets.files.keys()]
      .filter((name) => name.endsWith('.js'))
      .flatMap((name) =>
        [...text(name).matchAll(/(?:^|[;}\s])(?:import|export)\b[^'";]*?from\s*["']([^"']+)["']/g)].map(
          ([, target = '']) => named.get(target)?.replace('/assets/', '') ?? target.replace('./', ''),
        ),
      )
      .filter((target) => !assets.files.has(target));
    expect(missing).toEqual([]);
    expect(named.size).toBe(3);
  });

  it('is plain JavaScript', () => {
    expect(text('app.js')).not.toMatch(/\binterface\b|: VNode/);
    expect(text('app.js')).toContain("from './actions.js'");
  });

  it('has nothing in it that its policy would refuse: no script but the import map, no style, no other place', () => {
    const page = text('index.html');
    expect(page.match(/<script(?![^>]*\bsrc=)/g)).toHaveLength(1);
    expect(page).not.toMatch(/<style|\son\w+=|\sstyle=/);
    for (const name of assets.files.keys())
      expect(text(name).replaceAll('http://www.w3.org/', ''), name).not.toMatch(/["'(]https?:\/\//);
  });
});
