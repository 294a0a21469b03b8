import { addAbortSignal, type Readable, Transform } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { SnapshotError, snapshotNotFound, storeFailed } from './errors.ts';
import { isSnapshotName, type SnapshotStore } from './store.ts';

interface S3Options {
  readonly bucket: string;
  /** Without slashes at its ends; may be empty. */
  readonly prefix: string;
  /** Of a server that is not Amazon's. */
  readonly endpoint?: string | undefined;
  /** After so long without a byte in either direction a request is given up. */
  readonly idleMs?: number | undefined;
}

interface Call {
  readonly signal: AbortSignal;
}

/** Longer than a reader of a snapshot pauses between two pieces. */
const defaultIdleMs = 120_000;
const connectMs = 10_000;
/** For taking back what was begun, on the way out. */
const takeBackMs = 10_000;

/** At least 5 MiB, and no more than 10,000 of them: snapshots of up to 80 GB. */
const partBytes = 8 * 1024 * 1024;

/**
 * A bucket of S3, or of a server that speaks like it. Region, endpoint and credentials come from where programs that use
 * S3 look for them: variables AWS_*, files below ~/.aws, the machine's or pod's role. An object is there when its upload
 * has ended. The parts of an upload that fails are taken back before its error is thrown.
 */
export class S3Store implements SnapshotStore {
  readonly location: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;

  constructor({ bucket, prefix, endpoint, idleMs = defaultIdleMs }: S3Options) {
    this.#bucket = bucket;
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
    this.location = ['s3:/', bucket, prefix].filter(Boolean).join('/');
    this.#client = new S3Client({
      // A server that takes a request and never answers must not keep the manager from all other snapshots.
      requestHandler: { connectionTimeout: connectMs, socketTimeout: idleMs },
      // A snapshot has a checksum of its own, by which one that is damaged is told from a store that fails.
      responseChecksumValidation: 'WHEN_REQUIRED',
      // Servers at an address of one's own have no host name for each bucket.
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    });
  }

  async write(name: string, content: Readable, { signal }: Call): Promise<number> {
    const object = this.#object(name);
    let ofContent: unknown;
    content.once('error', (error) => {
      ofContent = error;
    });
    const failed = new AbortController();
    const options = { abortSignal: AbortSignal.any([signal, failed.signal]) };
    let upload: Upload | undefined;
    let bytes = 0;
    try {
      for await (const { body, isLast } of partsOf(addAbortSignal(signal, content))) {
        bytes += body.length;
        if (isLast && upload === undefined) {
          await this.#client.send(new PutObjectCommand({ ...object, ...type, Body: body }), options);
          return bytes;
        }
        upload ??= await this.#begin(object, options);
        // While one is on its way the next is read.
        await upload.sending;
        upload.send(body);
      }
      await upload?.sending;
      await this.#client.send(
        new CompleteMultipartUploadCommand({
          ...{ ...object, UploadId: upload?.id },
          MultipartUpload: { Parts: [...(upload?.parts ?? [])] },
        }),
        options,
      );
      return bytes;
    } catch (error) {
      content.destroy();
      failed.abort();
      if (upload !== undefined) await this.#takeBack(object, upload);
      // What is written comes from elsewhere, and its errors are their own explanation.
      if (error === ofContent && !signal.aborted) throw error;
      throw this.#explained(error, name, signal);
    }
  }

  async read(name: string, { signal }: Call): Promise<Readable> {
    return this.#try(name, signal, async () => {
      const { Body, ContentLength } = await this.#client.send(new GetObjectCommand(this.#object(name)), {
        abortSignal: signal,
      });
      return this.#received(Body as Readable, ContentLength, name, signal);
    });
  }

  async remove(name: string, { signal }: Call): Promise<void> {
    await this.#try(name, signal, () =>
      this.#client.send(new DeleteObjectCommand(this.#object(name)), { abortSignal: signal }),
    );
  }

  async list(namespace: string, virtualCluster: string, call: Call): Promise<string[]> {
    const found = await this.#below(`${namespace}/${virtualCluster}/`, call);
    return [...found.keys()].filter(isSnapshotName).sort();
  }

  sizes(namespace: string, call: Call): Promise<Map<string, number>> {
    return this.#below(`${namespace}/`, call);
  }

  /** Bytes by name, of all objects whose names begin so. */
  #below(folder: string, { signal }: Call): Promise<Map<string, number>> {
    return this.#try(folder, signal, async () => {
      const sizes = new Map<string, number>();
      for (let token: string | undefined; ; ) {
        const page = await this.#client.send(
          new ListObjectsV2Command({
            Bucket: this.#bucket,
            Prefix: `${this.#prefix}${folder}`,
            ...(token === undefined ? {} : { ContinuationToken: token }),
          }),
          { abortSignal: signal },
        );
        for (const { Key = '', Size = 0 } of page.Contents ?? [])
          sizes.set(Key.slice(this.#prefix.length), Size);
        token = page.NextContinuationToken;
        if (page.IsTruncated !== true || token === undefined) return sizes;
      }
    });
  }

  async #begin(object: ObjectKey, options: { abortSignal: AbortSignal }): Promise<Upload> {
    const isChecked = (await this.#client.config.requestChecksumCalculation()) === 'WHEN_SUPPORTED';
    const { UploadId } = await this.#client.send(
      // Amazon's takes no parts with checksums that were not announced.
      new CreateMultipartUploadCommand({
        ...object,
        ...type,
        ...(isChecked && { ChecksumAlgorithm: 'CRC32' }),
      }),
      options,
    );
    return new Upload(UploadId ?? '', (Body, PartNumber) =>
      this.#client.send(new UploadPartCommand({ ...object, UploadId, PartNumber, Body }), options),
    );
  }

  /** The error that counts is the one that has led here. */
  async #takeBack(object: ObjectKey, { id, sending }: Upload): Promise<void> {
    // A part that arrives later would stay.
    await sending.catch(() => {});
    await this.#client
      .send(new AbortMultipartUploadCommand({ ...object, UploadId: id }), {
        abortSignal: AbortSignal.timeout(takeBackMs),
      })
      .catch(() => {});
  }

  /** What comes of an object, with errors of the way told from those of what is in it. */
  #received(body: Readable, length: number | undefined, name: string, signal: AbortSignal): Readable {
    let received = 0;
    const content = new Transform({
      transform: (chunk: Buffer, _, done) => {
        received += chunk.length;
        done(null, chunk);
      },
      flush: (done) => {
        const isWhole = length === undefined || received === length;
        done(isWhole ? null : storeFailed(this.location, `of ${name} came ${received} of ${length} bytes`));
      },
    });
    body.once('error', (error) => content.destroy(this.#explained(error, name, signal) as Error));
    content.once('close', () => body.destroy());
    return body.pipe(content);
  }

  #object(name: string): ObjectKey {
    if (!isSnapshotName(name)) throw snapshotNotFound(name, this.location);
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
    if (error instanceof NoSuchKey) return snapshotNotFound(name, this.location);
    return error instanceof SnapshotError ? error : storeFailed(this.location, error);
  }
}

interface ObjectKey {
  readonly Bucket: string;
  readonly Key: string;
}

const type = { ContentType: 'application/octet-stream' };

/** One in parts, of which one at a time is on its way. */
class Upload {
  readonly id: string;
  readonly parts: CompletedPart[] = [];
  sending: Promise<void> = Promise.resolve();
  readonly #send: (body: Buffer, partNumber: number) => Promise<CompletedPart>;
  #count = 0;

  constructor(id: string, send: (body: Buffer, partNumber: number) => Promise<CompletedPart>) {
    this.id = id;
    this.#send = send;
  }

  send(body: Buffer): void {
    const PartNumber = ++this.#count;
    this.sending = this.#send(body, PartNumber).then(({ ETag, ChecksumCRC32 }) => {
      this.parts.push({ PartNumber, ETag, ...(ChecksumCRC32 && { ChecksumCRC32 }) });
    });
    // The caller awaits it later; until then a failure must not count as an unhandled rejection.
    this.sending.catch(() => {});
  }
}

/** All but the last are of the same size; there is one at least. */
async function* partsOf(content: Readable): AsyncGenerator<{ body: Buffer; isLast: boolean }> {
  let pieces: Buffer[] = [];
  let length = 0;
  for await (const chunk of content as AsyncIterable<Uint8Array | string>) {
    const piece =
      typeof chunk === 'string'
        ? Buffer.from(chunk)
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    pieces.push(piece);
    length += piece.length;
    while (length > partBytes) {
      const whole = Buffer.concat(pieces);
      yield { body: whole.subarray(0, partBytes), isLast: false };
      pieces = [whole.subarray(partBytes)];
      length -= partBytes;
    }
  }
  yield { body: Buffer.concat(pieces), isLast: true };
}
