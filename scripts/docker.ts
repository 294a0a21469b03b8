import { execa } from 'execa';

const main = 'test/docker/engine/main.ts';

/** Why this machine cannot run a Docker engine of the tests' own, in one line; undefined when it can. */
export async function whyNoDocker(): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await execa(process.execPath, [main, 'check'], { reject: false });
  return exitCode === 0 ? undefined : stdout || stderr;
}

/** In CI a machine that cannot run it is a fault. */
export function isDockerRequired(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env['SKERRY_REQUIRE_DOCKER'] || env['CI']);
}

/** Builds Docker Compose and images to start from, unless they were built before; leaves the processors to others. */
export async function prepareDocker(): Promise<void> {
  await execa('nice', ['-n', '19', process.execPath, main, 'prepare'], { stdio: 'inherit' });
}
