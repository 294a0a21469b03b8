import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';

/** overlay2 where this directory's file system can be a layer of one, else vfs, which copies every layer. */
export async function storageDriver(directory: string): Promise<'overlay2' | 'vfs'> {
  const probe = join(directory, 'probe');
  const [lower, upper, work, merged] = ['lower', 'upper', 'work', 'merged'].map((name) => join(probe, name));
  for (const each of [lower, upper, work, merged]) await mkdir(each as string, { recursive: true });
  const options = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  // In a namespace of its own: nothing stays mounted.
  const { exitCode } = await execa(
    'unshare',
    ['--mount', 'mount', '-t', 'overlay', 'overlay', '-o', options, merged as string],
    { reject: false },
  );
  await rm(probe, { recursive: true, force: true });
  return exitCode === 0 ? 'overlay2' : 'vfs';
}
