import { lstat, readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { TarMember } from './tar-header.ts';

/** A member of a layer and where its content is. */
export interface LayerEntry extends Omit<TarMember, 'sizeBytes'> {
  content?: { file: string } | { text: string };
}

export function directory(path: string, mode = 0o755): LayerEntry {
  return { path, type: 'directory', mode };
}

export function file(path: string, source: string, mode = 0o755): LayerEntry {
  return { path, type: 'file', mode, content: { file: source } };
}

export function text(path: string, content: string, mode = 0o644): LayerEntry {
  return { path, type: 'file', mode, content: { text: content } };
}

export function symlink(path: string, target: string): LayerEntry {
  return { path, type: 'symlink', mode: 0o777, target };
}

/** Everything below a directory but device nodes, which a container gets from its runtime. */
export async function tree(root: string): Promise<LayerEntry[]> {
  const entries: LayerEntry[] = [];
  /** Inode to the first path of it. */
  const linked = new Map<number, string>();
  const walk = async (path: string): Promise<void> => {
    for (const name of (await readdir(join(root, path))).sort()) {
      const at = path === '' ? name : `${path}/${name}`;
      const found = await lstat(join(root, at));
      const owner = { path: at, mode: found.mode & 0o7777, uid: found.uid, gid: found.gid };
      if (found.isDirectory()) {
        entries.push({ ...owner, type: 'directory' });
        await walk(at);
      } else if (found.isSymbolicLink()) {
        entries.push({ ...owner, type: 'symlink', target: await readlink(join(root, at)) });
      } else if (found.isFile()) {
        const first = found.nlink > 1 ? linked.get(found.ino) : undefined;
        if (first === undefined) {
          linked.set(found.ino, at);
          entries.push({ ...owner, type: 'file', content: { file: join(root, at) } });
        } else entries.push({ ...owner, type: 'hardlink', target: first });
      }
    }
  };
  await walk('');
  return entries;
}

export async function contentBytes({ content }: LayerEntry): Promise<number> {
  if (content === undefined) return 0;
  return 'text' in content ? Buffer.byteLength(content.text) : (await stat(content.file)).size;
}
