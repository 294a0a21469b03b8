import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { defaultVersions } from '../../vc-manager/binaries/index.ts';
import { ComposeDriver } from '../../vc-manager/drivers/compose/compose-driver.ts';
import { imageOf } from '../../vc-manager/drivers/images.ts';
import { describeDriver } from '../drivers/conformance.ts';
import { type DriverWorld, localWorldParts } from '../drivers/driver-world.ts';
import { describeWithEngine } from './engine/describe-with-engine.ts';
import { type EngineInfo, mustDocker } from './engine/engine.ts';
import { withKubernetesImages } from './images/index.ts';

const version = defaultVersions.kubernetes;

describeWithEngine('on a Docker engine', (engine) => {
  describeDriver('compose', () => composeWorld(engine));
});

async function composeWorld(engine: EngineInfo): Promise<DriverWorld> {
  await withKubernetesImages(engine);
  const { root, world } = await localWorldParts();
  for (const name of ['kube-apiserver', 'kube-controller-manager'] as const) {
    await mustDocker(engine, [
      'tag',
      imageOf({ name, version }),
      imageOf({ name, version: world.otherVersion }),
    ]);
  }
  const owned = (kind: string[], id: string, format: string): Promise<string> =>
    mustDocker(engine, [...kind, '--filter', `label=skerry.dev/id=${id}`, '--format', format]);
  return {
    ...world,
    makeDriver: () => new ComposeDriver({ root, environment: { ...process.env, ...engine.env } }),
    crash: async (id, component) => {
      const container = `skerry-${id}-${component}-1`;
      const pid = Number(await mustDocker(engine, ['inspect', '--format', '{{.State.Pid}}', container]));
      // By the kernel: the engine takes what it kills itself for wanted.
      process.kill(pid, 'SIGKILL');
    },
    traces: async (id) => {
      const containers = await owned(['ps', '--all'], id, 'container {{.Names}}');
      const volumes = await owned(['volume', 'ls'], id, 'volume {{.Name}}');
      return [
        ...`${containers}\n${volumes}`.split('\n').filter((line) => line !== ''),
        ...(existsSync(join(root, id)) ? [join(root, id)] : []),
      ];
    },
  };
}
