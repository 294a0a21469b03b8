import { appendFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Cache, Tell } from '../build/programs.ts';
import { run } from '../machine/machine.ts';
import { directory, file, type LayerEntry, symlink, text, tree } from './layer.ts';

/** A static program from the C file of that name beside this one. `edition` is to be raised when the file changes. */
export function compile(cache: Cache, name: string, edition: string): Promise<string> {
  const source = join(import.meta.dirname, `${name}.c`);
  return cache.ensure(cache.path('programs', name, edition, name), async (directory) => {
    const program = join(directory, name);
    await run('gcc', ['-static', '-Os', '-s', '-Wall', '-Werror', '-o', program, source], {
      signal: cache.signal,
    });
    return program;
  });
}

/** The program that does nothing: in the pause image, and as the first process of a node. */
export function providePause(cache: Cache): Promise<string> {
  return compile(cache, 'pause', '1');
}

/** To be raised when the way it is built changes. */
const programEdition = 'source-1';
/** To be raised when anything in the layer changes. */
export const busyboxEdition = `${programEdition}-all-in-bin`;

/** A small system of one program under its many names. */
export async function busyboxLayer(cache: Cache): Promise<LayerEntry[]> {
  const program = await provideBusybox(cache);
  const names = (await run(program, ['--list-full'])).split('\n').filter((name) => name !== '');
  const places = names.filter((name) => !name.endsWith('/busybox') && name !== 'linuxrc');
  // Whoever names a path expects all of them in /bin, as in upstream's image.
  const applets = new Set(places.flatMap((path) => [path, `bin/${basename(path)}`]));
  return [
    ...['bin', 'sbin', 'usr', 'usr/bin', 'usr/sbin', 'etc', 'home', 'var', 'var/spool', 'var/www'].map(
      (path) => directory(path),
    ),
    directory('root', 0o700),
    directory('tmp', 0o1777),
    text('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n'),
    text('etc/group', 'root:x:0:\nnogroup:x:65534:\n'),
    file('bin/busybox', program),
    ...[...applets].map((path) => symlink(path, '/bin/busybox')),
  ];
}

/**
 * Built with its own default configuration from Debian's source package. Debian's own program is built with another
 * one: its shell drops variables with a `-` in their names, and its wget dies of a time limit.
 */
function provideBusybox(cache: Cache): Promise<string> {
  const path = cache.path('programs', 'busybox', programEdition, 'busybox');
  return cache.ensure(path, async (work, tell) => {
    const source = join(work, 'source');
    await mkdir(source);
    await run('tar', ['-xf', await download(cache, work, tell), '-C', source, '--strip-components=1']);
    const make = (...args: string[]): Promise<string> =>
      run('make', ['-C', source, ...args], { signal: cache.signal });
    await make('defconfig');
    const configuration = join(source, '.config');
    const defaults = await readFile(configuration, 'utf8');
    await writeFile(
      configuration,
      defaults
        .replace('# CONFIG_STATIC is not set', 'CONFIG_STATIC=y')
        // Speaks of kernel structures that newer headers do not have.
        .replace('CONFIG_TC=y', '# CONFIG_TC is not set'),
    );
    tell('compiling');
    await make('-j2', 'busybox');
    return join(source, 'busybox');
  });
}

/** With sources and package lists of its own: the machine's are as they were. */
async function download(cache: Cache, work: string, tell: Tell): Promise<string> {
  const apt = join(work, 'apt');
  for (const part of ['lists/partial', 'archives/partial']) await mkdir(join(apt, part), { recursive: true });
  const sources = join(apt, 'sources.list');
  const mirror = await debianMirror(cache.env);
  await writeFile(sources, `deb-src ${mirror} ${debianRelease} main\n`);
  const options = [
    ...['-o', `Dir::Etc::SourceList=${sources}`, '-o', 'Dir::Etc::SourceParts=/dev/null'],
    ...['-o', `Dir::State::Lists=${join(apt, 'lists')}`, '-o', `Dir::Cache=${apt}`],
    // Its unprivileged user may not write there.
    ...['-o', 'APT::Sandbox::User=root', '-qq'],
  ];
  tell('asking Debian for its source');
  await run('apt-get', [...options, 'update'], { signal: cache.signal });
  await run(
    'sh',
    ['-c', 'cd "$0" && apt-get "$@"', apt, ...options, 'source', '--download-only', 'busybox'],
    {
      signal: cache.signal,
    },
  );
  const name = (await readdir(apt)).find((each) => /^busybox_.*\.orig\.tar\.\w+$/.test(each));
  if (name === undefined) throw new Error(`no source of busybox was found at ${mirror}`);
  return join(apt, name);
}

const debianRelease = 'bookworm';
const packages = ['curl', 'dnsutils', 'iproute2', 'iptables', 'netcat-openbsd'];
/** What nobody reads in a container. */
const ballast = [
  'var/cache/apt',
  'var/lib/apt/lists',
  'usr/share/doc',
  'usr/share/man',
  'usr/share/locale',
  'usr/share/info',
  'var/log',
];

interface DebianOptions {
  /** Lines of /etc/passwd and /etc/group. */
  users: readonly string[];
  groups: readonly string[];
}

/** A small Debian with what upstream's tests call in a container. `target` must outlive the layer's use. */
export async function debianLayer(
  cache: Cache,
  target: string,
  { users, groups }: DebianOptions,
): Promise<LayerEntry[]> {
  cache.tell(`debootstrap ${debianRelease} with ${packages.join(', ')}`);
  const include = `--include=${packages.join(',')}`;
  await run(
    'debootstrap',
    ['--variant=minbase', include, debianRelease, target, await debianMirror(cache.env)],
    {
      signal: cache.signal,
    },
  );
  for (const path of ballast) await rm(join(target, path), { recursive: true, force: true });
  await appendFile(join(target, 'etc/passwd'), users.map((line) => `${line}\n`).join(''));
  await appendFile(join(target, 'etc/group'), groups.map((line) => `${line}\n`).join(''));
  const entries = await tree(target);
  // The runtime brings its own, and of the bootstrap's only device nodes and mount points are there.
  return entries.filter(({ path }) => !/^(dev|proc|sys)\//.test(path));
}

/** SKERRY_DEBIAN_MIRROR, or where this machine's own packages of that release come from. */
async function debianMirror(env: Cache['env']): Promise<string> {
  if (env['SKERRY_DEBIAN_MIRROR']) return env['SKERRY_DEBIAN_MIRROR'];
  const format = '$(CODENAME) $(REPO_URI)';
  const targets = await run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages']);
  const mirror = targets
    .split('\n')
    .map((line) => line.split(' '))
    .find(([codename]) => codename === debianRelease)?.[1];
  if (mirror === undefined) {
    throw new Error(
      `this machine has no packages of Debian ${debianRelease}: name a mirror in SKERRY_DEBIAN_MIRROR`,
    );
  }
  return mirror.replace(/\/$/, '');
}
