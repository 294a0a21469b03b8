import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Binaries, defaultVersions } from '../../vc-manager/binaries/index.ts';
import { runningPids } from '../../vc-manager/drivers/ports.ts';
import { ProcessDriver } from '../../vc-manager/drivers/process/process-driver.ts';
import { processesWithVariable } from '../../vc-manager/os/process-identity.ts';
import { describeDriver } from './conformance.ts';
import { type DriverWorld, localWorldParts } from './driver-world.ts';

describeDriver('process', processWorld);

async function processWorld(): Promise<DriverWorld> {
  const { binaries, root, world } = await localWorldParts();
  const standingIn: Pick<Binaries, 'ensure'> = {
    ensure: ({ name, version }, options) =>
      binaries.ensure(
        { name, version: version === world.otherVersion ? defaultVersions.kubernetes : version },
        options,
      ),
  };
  const makeDriver = (): ProcessDriver =>
    new ProcessDriver({ root, binaries: standingIn, livenessIntervalMs: 100 });
  return {
    ...world,
    makeDriver,
    crash: async (id, component) => {
      const driver = makeDriver();
      const { components } = await driver.observe(id);
      await driver.close();
      const pid = components.find(({ name }) => name === component)?.pid;
      if (pid === undefined) throw new Error(`${component} of ${id} does not run`);
      process.kill(pid, 'SIGKILL');
    },
    traces: async (id) => {
      const place = join(root, id);
      const marked = [...processesWithVariable('SKERRY_COMPONENT', await runningPids())].filter(([, mark]) =>
        mark.startsWith(`${place}/`),
      );
      return [
        ...marked.map(([pid, mark]) => `process ${pid} (${mark})`),
        ...(existsSync(place) ? [place] : []),
      ];
    },
  };
}
