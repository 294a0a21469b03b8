import { join } from 'node:path';
import { type EngineInfo, mustDocker } from '../engine/engine.ts';

export const skerryImage = 'skerry:local';
export const managerImage = 'skerry-manager:local';
export const repository = join(import.meta.dirname, '..', '..', '..');

const buildTimeoutMs = 580_000;

/** Builds from deploy/Dockerfile as a user does; `docker build` of this engine is the classic builder. */
export async function buildSkerry(
  engine: EngineInfo,
  { tag, target, arguments: more = [] }: { tag: string; target: string; arguments?: readonly string[] },
): Promise<void> {
  await mustDocker(
    engine,
    // The engine has no bridge: what npm fetches comes by way of the host's network.
    [
      'build',
      '--network',
      'host',
      '--file',
      'deploy/Dockerfile',
      '--target',
      target,
      '--tag',
      tag,
      ...more,
      '.',
    ],
    { cwd: repository, env: { DOCKER_BUILDKIT: '0' }, timeoutMs: buildTimeoutMs },
  );
}
