import { defaultVersions } from '../../vc-manager/binaries/index.ts';

/** Full versions whose programs are there, such as `1.36.1,1.35.4,1.34.4`. */
export const earlierBuilds = (process.env['SKERRY_E2E_EARLIER_VERSIONS'] ?? '')
  .split(',')
  .filter((each) => each !== '');

export const minorOf = (version: string): number => Number(version.split('.')[1]);

const minor = minorOf(defaultVersions.kubernetes);

/** Those that can be left for the default version: a change goes one minor version up at most. */
export const upgradableBuilds = earlierBuilds.filter((version) => minorOf(version) >= minor - 1);
