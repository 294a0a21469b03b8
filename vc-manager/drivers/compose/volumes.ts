import { Header } from 'tar/header';
import { type ContainerSpec, containerUser, inside, labels, projectOf } from './compose-file.ts';
import { type Docker, refused } from './docker.ts';

interface TarEntry {
  /** Relative, forward slashes; one that ends with a slash is a directory. At most 255 bytes. */
  path: string;
  content?: string;
  mode: number;
  /** Owner and group. */
  owner: number;
}

const blockBytes = 512;

/** A POSIX tar archive (ustar). Throws TypeError when a path does not fit into it. */
export function tar(entries: readonly TarEntry[]): Uint8Array {
  const blocks: Buffer[] = [];
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? '');
    blocks.push(header(entry, content.length), content, padding(content.length));
  }
  blocks.push(Buffer.alloc(2 * blockBytes));
  return Buffer.concat(blocks);
}

function header({ path, mode, owner }: TarEntry, sizeBytes: number): Buffer {
  const block = Buffer.alloc(blockBytes);
  const type = path.endsWith('/') ? 'Directory' : 'File';
  // Equal files make equal archives.
  const mtime = new Date(0);
  const encoded = new Header({ path, mode, uid: owner, gid: owner, size: sizeBytes, mtime, type });
  if (encoded.encode(block)) throw new TypeError(`${path} is too long for an archive`);
  return block;
}

function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((blockBytes - (sizeBytes % blockBytes)) % blockBytes);
}

/**
 * Makes the volumes of a component and puts its files into them, with `docker cp` and a container that never runs: so
 * nothing has to lie at the same path here and where the engine is, and a manager may itself be a container. Not to be
 * called for volumes that a container of the component uses.
 */
export async function fillVolumes(
  docker: Docker,
  id: string,
  target: ContainerSpec,
  signal: AbortSignal,
): Promise<void> {
  const { component, image, program, volumes } = target;
  const where = { id, component: component.name };
  const present = (['files', 'data'] as const).flatMap((kind) => {
    const name = volumes[kind];
    return name === undefined ? [] : [{ kind, name }];
  });
  if (present.length === 0) return;
  for (const { kind, name } of present) {
    const made = await docker.run(
      ['volume', 'create', ...label(id, component.name), '--label', `${labels.volume}=${kind}`, name],
      { signal },
    );
    if (made.exitCode !== 0) throw refused(where, `make the volume ${name}`, made.stderr);
  }
  const helper = `${projectOf(id)}-${component.name}-filling`;
  // Of one that was interrupted.
  await docker.run(['rm', '--force', helper], { signal });
  const create = [
    ...['create', '--name', helper, '--network', 'none', '--pull', 'never'],
    ...['--label', `${labels.id}=${id}`, '--label', `${labels.filling}=${component.name}`],
    ...present.flatMap(({ kind, name }) => [
      '--mount',
      `type=volume,source=${name},target=${inside[kind]},volume-nocopy`,
    ]),
    ...['--entrypoint', program, image],
  ];
  const created = await docker.run(create, { signal });
  if (created.exitCode !== 0) throw refused(where, 'prepare its files', created.stderr);
  try {
    const copied = await docker.run(['cp', '-', `${helper}:/`], { input: archive(target), signal });
    if (copied.exitCode !== 0) throw refused(where, 'write its files', copied.stderr);
  } finally {
    await docker.run(['rm', '--force', helper]);
  }
}

/** Removes the volumes with files of a component, but for the one that is in use. */
export async function removeFiles(
  docker: Docker,
  { id, component }: { id: string; component: string },
  inUse?: string,
): Promise<void> {
  const filters = [`${labels.id}=${id}`, `${labels.component}=${component}`, `${labels.volume}=files`];
  const all = await listVolumes(docker, filters);
  const old = all.filter((each) => each !== inUse);
  if (old.length > 0) await docker.run(['volume', 'rm', '--force', ...old]);
}

/** Names of the volumes that carry all of these labels. */
export async function listVolumes(docker: Docker, filters: readonly string[]): Promise<string[]> {
  const { exitCode, stdout, stderr } = await docker.run([
    ...['volume', 'ls', '--quiet'],
    ...filters.flatMap((filter) => ['--filter', `label=${filter}`]),
  ]);
  if (exitCode !== 0) throw refused({}, 'list volumes', stderr);
  return stdout.split('\n').filter((line) => line !== '');
}

function label(id: string, component: string): string[] {
  return ['--label', `${labels.id}=${id}`, '--label', `${labels.component}=${component}`];
}

/** Directories belong to the component's user; no other user may read them. */
function archive({ files, volumes }: ContainerSpec): Uint8Array {
  const directory = (path: string): TarEntry => ({ path: `${path}/`, mode: 0o700, owner: containerUser });
  const relative = (path: string): string => path.replace(/^\//, '');
  const entries: TarEntry[] = [];
  if (volumes.data !== undefined) entries.push(directory(relative(inside.data)));
  if (volumes.files !== undefined) {
    const made = new Set<string>();
    for (const file of files) {
      const path = `${relative(inside.files)}/${file.path}`;
      const parts = path.split('/').slice(0, -1);
      for (let depth = 2; depth <= parts.length; depth++) made.add(parts.slice(0, depth).join('/'));
    }
    entries.push(...[...made].sort().map(directory));
    for (const { path, content, mode } of files) {
      entries.push({ path: `${relative(inside.files)}/${path}`, content, mode, owner: containerUser });
    }
  }
  return tar(entries);
}
