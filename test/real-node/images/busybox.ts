import { run } from '../machine/run.ts';
import { directory, file, type LayerEntry, symlink, text } from './layer.ts';

const program = '/bin/busybox';

/** A small system of one program under its many names. */
export async function busyboxLayer(): Promise<LayerEntry[]> {
  const names = (await run(program, ['--list-full'])).split('\n').filter((name) => name !== '');
  const applets = names.filter((name) => !name.endsWith('/busybox') && name !== 'linuxrc');
  return [
    ...['bin', 'sbin', 'usr', 'usr/bin', 'usr/sbin', 'etc', 'home', 'var', 'var/spool', 'var/www'].map(
      (path) => directory(path),
    ),
    directory('root', 0o700),
    directory('tmp', 0o1777),
    text('etc/passwd', 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n'),
    text('etc/group', 'root:x:0:\nnogroup:x:65534:\n'),
    file('bin/busybox', program),
    ...applets.map((path) => symlink(path, '/bin/busybox')),
  ];
}
