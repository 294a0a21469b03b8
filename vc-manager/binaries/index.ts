export { Binaries, type BinaryListing } from './binaries.ts';
export type { BinaryProgress } from './binary.ts';
export {
  type BinaryLocation,
  type BinaryName,
  type BinaryRequest,
  controlPlaneRequests,
  defaultRequests,
  defaultVersions,
  hostPlatform,
  isOlderVersion,
} from './binary.ts';
export { defaultCacheDirectory } from './binary-cache.ts';
export { BinaryError } from './errors.ts';
export { FetchShare } from './fetch-share.ts';
export { type BuildRecipe, buildFromModule, kubernetesStamps } from './go-build.ts';
