import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { BuildRecipe } from '../../../vc-manager/binaries/index.ts';
import type { Cache } from '../../real-node/build/cache.ts';
import { built } from '../../real-node/build/programs.ts';

const version = 'v2.40.3';
const module = 'github.com/docker/compose/v2';
const recipe: BuildRecipe = {
  module,
  moduleVersion: version,
  package: `${module}/cmd`,
  // It prints its name when it was not told its version.
  ldflags: `-s -w -X ${module}/internal.Version=${version}`,
};

/** Path of Docker Compose v2, which Debian does not have; built from its Go module unless it was built before. */
export function provideCompose(cache: Cache): Promise<string> {
  return built(cache, 'docker-compose', { edition: version, recipe });
}

/** Makes a DOCKER_CONFIG of its own, which knows `docker compose` and no credentials of anybody. */
export async function makeDockerConfig(directory: string, compose: string): Promise<void> {
  const plugins = join(directory, 'cli-plugins');
  await mkdir(plugins, { recursive: true });
  await symlink(compose, join(plugins, 'docker-compose'));
}
