import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { contentBytes, type LayerEntry } from './layer.ts';
import { endOfArchive, padding, tarHeader } from './tar-header.ts';

/** A tar archive on disk, hashed as it is written. */
export class TarWriter {
  readonly #handle: FileHandle;
  readonly #hash = createHash('sha256');
  #sizeBytes = 0;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  static async create(path: string): Promise<TarWriter> {
    return new TarWriter(await open(path, 'w'));
  }

  async add(entry: LayerEntry): Promise<void> {
    const sizeBytes = await contentBytes(entry);
    await this.#write(tarHeader({ ...entry, sizeBytes }));
    const { content } = entry;
    if (content === undefined) return;
    if ('text' in content) await this.#write(Buffer.from(content.text));
    else {
      for await (const chunk of createReadStream(content.file, { highWaterMark: 1 << 20 })) {
        await this.#write(chunk as Buffer);
      }
    }
    await this.#write(padding(sizeBytes));
  }

  async end(): Promise<{ sha256: string; sizeBytes: number }> {
    await this.#write(endOfArchive);
    await this.#handle.close();
    return { sha256: this.#hash.digest('hex'), sizeBytes: this.#sizeBytes };
  }

  async #write(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return;
    this.#hash.update(bytes);
    this.#sizeBytes += bytes.length;
    await this.#handle.write(bytes);
  }
}
