import { resolve } from 'node:path';
import { invalidStore } from './errors.ts';
import { DirectoryStore, type SnapshotStore } from './store.ts';

/** `s3://BUCKET[/PREFIX]`, or a directory. Throws `InvalidSnapshotStore`. */
export async function openStore(
  place: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<SnapshotStore> {
  if (!place.includes('://')) return new DirectoryStore(resolve(place));
  const url = URL.canParse(place) ? new URL(place) : undefined;
  const bucket = url?.hostname ?? '';
  if (url?.protocol !== 's3:' || bucket === '' || url.search !== '' || url.hash !== '' || url.username !== '')
    throw invalidStore(`"${place}" is no place for snapshots: it is a directory, or s3://BUCKET/PREFIX`);
  // A large library, and few have a bucket.
  const { S3Store } = await import('./s3-store.ts');
  const prefix = decodeURIComponent(url.pathname).split('/').filter(Boolean).join('/');
  return new S3Store({
    bucket,
    prefix,
    endpoint: env['AWS_ENDPOINT_URL_S3'] || env['AWS_ENDPOINT_URL'] || undefined,
  });
}
