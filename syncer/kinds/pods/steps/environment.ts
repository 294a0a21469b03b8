import type { PodStep } from '../translate.ts';

/**
 * Sync rules 8 and 9: kubelet would describe the super namespace's Services, so it is told not to. The
 * variables that name the tenant's API server and Services will be written here.
 */
export const environment: PodStep = (spec) => ({ ...spec, enableServiceLinks: false });
