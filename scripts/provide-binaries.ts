import {
  Binaries,
  type BinaryProgress,
  controlPlaneRequests,
  defaultCacheDirectory,
  defaultRequests,
} from '../vc-manager/binaries/index.ts';

const everyMs = 5_000;

/**
 * Finds, fetches or builds every binary that tests and benchmarks start, and control planes of `otherVersions`; prints
 * its progress.
 */
export async function provideBinaries(otherVersions: readonly string[] = []): Promise<void> {
  const lastTold = new Map<string, number>();
  const binaries = new Binaries({
    cacheDir: defaultCacheDirectory(process.env),
    env: process.env,
    onProgress: (progress: BinaryProgress) => {
      const now = Date.now();
      const key = `${progress.name}/${progress.stage}`;
      if (now - (lastTold.get(key) ?? 0) < everyMs) return;
      lastTold.set(key, now);
      console.log(`${progress.name} ${progress.version}: ${progress.message}`);
    },
  });
  const found = await binaries.ensureAll(
    [...defaultRequests(), ...otherVersions.flatMap(controlPlaneRequests)],
    { signal: new AbortController().signal },
  );
  for (const { name, version, source } of found) console.log(`${name} ${version}: ready (${source})`);
}
