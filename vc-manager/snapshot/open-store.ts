import { resolve } from 'node:path';
import { invalidStore } from './errors.ts';
import { DirectoryStore, type SnapshotStore } from './store.ts';

/** `s3://BUCKET[/PREFIX]`, or a directory. Throws `InvalidSnapshotStore`. */
export async function openStore(
  location: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SnapshotStore> {
  if (!location.includes('://')) return new DirectoryStore(resolve(location));
  const url = URL.canParse(location) ? new URL(location) : undefined;
  const bucket = url?.hostname ?? '';
  const prefix = prefixOf(url?.pathname ?? '');
  const isPlain = url?.href === `s3://${bucket}${url?.pathname}`;
  if (bucket === '' || prefix === undefined || !isPlain)
    throw invalidStore(
      `"${location}" is no place for snapshots: it is a directory, or s3://BUCKET/PREFIX; AWS_ENDPOINT_URL names the server`,
    );
  // A large library, and few have a bucket.
  const { S3Store } = await import('./s3-store.ts');
  return new S3Store({
    bucket,
    prefix,
    endpoint: env['AWS_ENDPOINT_URL_S3'] || env['AWS_ENDPOINT_URL'] || undefined,
  });
}

/** Undefined: it is not encoded as in a URL. */
function prefixOf(path: string): string | undefined {
  try {
    return decodeURIComponent(path).split('/').filter(Boolean).join('/');
  } catch {
    return undefined;
  }
}
