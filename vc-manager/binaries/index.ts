export { Binaries, type BinariesOptions, type BinaryListing } from './binaries.ts';
export {
  type BinaryFamily,
  type BinaryLocation,
  type BinaryName,
  type BinaryRequest,
  controlPlaneRequests,
  defaultRequests,
  defaultVersions,
} from './binary.ts';
export { defaultCacheDirectory } from './cache-directory.ts';
export { type BinaryAttempt, BinaryError, type BinaryErrorCode, type UnavailableBinary } from './errors.ts';
export { lockHolder, withFileLock } from './file-lock.ts';
export { buildFromModule, type Workshop } from './go-build.ts';
export { type BuildRecipe, kubernetesStamps } from './go-module.ts';
export { hostPlatform, type Platform } from './platform.ts';
export type { BinaryProgress, BinaryStage } from './progress.ts';
