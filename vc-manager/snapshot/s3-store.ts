import type { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { SnapshotError, snapshotNotFound, storeFailed } from './errors.ts';
import { isSnapshotName, type SnapshotStore } from './store.ts';

interface S3Options {
  readonly bucket: string;
  /** Without slashes at its ends; may be empty. */
  readonly prefix: string;
  /** Of a server that is not Amazon's. */
  readonly endpoint?: string | undefined;
}

interface Call {
  readonly signal: AbortSignal;
}

/**
 * A bucket of S3, or of a server that speaks like it. Region, endpoint and credentials come from where programs that use
 * S3 look for them: variables AWS_*, files below ~/.aws, the machine's or pod's role. An object is there when its upload
 * has ended, and an upload that fails is taken back.
 */
export class S3Store implements SnapshotStore {
  readonly place: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor({ bucket, prefix, endpoint }: S3Options) {
    this.#bucket = bucket;
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
    this.place = ['s3:/', bucket, prefix].filter(Boolean).join('/');
    // Servers at an address of one's own have no host name for each bucket.
    this.#client = new S3Client(endpoint === undefined ? {} : { endpoint, forcePathStyle: true });
  }

  async write(name: string, content: Readable, { signal }: Call): Promise<number> {
    const upload = new Upload({
      client: this.#client,
      params: { ...this.#object(name), Body: content, ContentType: 'application/octet-stream' },
      queueSize: 2,
    });
    const abort = (): void => void upload.abort().catch(() => {});
    signal.addEventListener('abort', abort, { once: true });
    try {
      await upload.done();
      const { ContentLength = 0 } = await this.#client.send(new HeadObjectCommand(this.#object(name)), {
        abortSignal: signal,
      });
      return ContentLength;
    } catch (error) {
      content.destroy();
      throw this.#explained(error, name, signal);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  async read(name: string, { signal }: Call): Promise<Readable> {
    return this.#try(name, signal, async () => {
      const { Body } = await this.#client.send(new GetObjectCommand(this.#object(name)), {
        abortSignal: signal,
      });
      return Body as Readable;
    });
  }

  async remove(name: string, { signal }: Call): Promise<void> {
    await this.#try(name, signal, () =>
      this.#client.send(new DeleteObjectCommand(this.#object(name)), { abortSignal: signal }),
    );
  }

  async list(namespace: string, virtualCluster: string, { signal }: Call): Promise<string[]> {
    const folder = `${namespace}/${virtualCluster}/`;
    return this.#try(folder, signal, async () => {
      const names: string[] = [];
      for (let token: string | undefined; ; ) {
        const page = await this.#client.send(
          new ListObjectsV2Command({
            Bucket: this.#bucket,
            Prefix: `${this.#prefix}${folder}`,
            ...(token === undefined ? {} : { ContinuationToken: token }),
          }),
          { abortSignal: signal },
        );
        for (const { Key = '' } of page.Contents ?? []) names.push(Key.slice(this.#prefix.length));
        token = page.NextContinuationToken;
        if (page.IsTruncated !== true || token === undefined) return names.filter(isSnapshotName).sort();
      }
    });
  }

  #object(name: string): { Bucket: string; Key: string } {
    if (!isSnapshotName(name)) throw snapshotNotFound(name, this.place);
    return { Bucket: this.#bucket, Key: `${this.#prefix}${name}` };
  }

  async #try<T>(name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#explained(error, name, signal);
    }
  }

  #explained(error: unknown, name: string, signal: AbortSignal): unknown {
    if (signal.aborted) return signal.reason;
    if (error instanceof NoSuchKey) return snapshotNotFound(name, this.place);
    // Errors of what is written come from elsewhere, and are their own explanation.
    const isOther = error instanceof SnapshotError || (error instanceof Error && 'retryable' in error);
    return isOther ? error : storeFailed(this.place, error);
  }
}
