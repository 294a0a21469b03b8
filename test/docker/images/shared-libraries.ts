import { dirname } from 'node:path';
import { directory, file, type LayerEntry } from '../../real-node/images/layer.ts';
import { run } from '../../real-node/machine/machine.ts';

/** The libraries of programs of this machine, its loader among them, at the paths where the programs look for them. */
export async function sharedLibraries(programs: readonly string[]): Promise<LayerEntry[]> {
  const paths = new Set<string>();
  for (const program of programs) {
    const listed = await run(program, [], { env: { LD_TRACE_LOADED_OBJECTS: '1' } });
    for (const [path] of listed.matchAll(/\/[^ \n]+/g)) paths.add(path);
  }
  return [...paths].sort().flatMap((path) => [...folders(path), file(path.slice(1), path)]);
}

function folders(path: string): LayerEntry[] {
  const parents: LayerEntry[] = [];
  for (let parent = dirname(path); parent !== '/'; parent = dirname(parent)) {
    parents.unshift(directory(parent.slice(1)));
  }
  return parents;
}
