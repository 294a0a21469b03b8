export interface TarEntry {
  /** Relative, forward slashes; one that ends with a slash is a directory. At most 255 bytes. */
  path: string;
  content?: string;
  mode: number;
  /** Owner and group. */
  owner: number;
}

const blockBytes = 512;

/** A POSIX tar archive (ustar). Throws TypeError when a path does not fit into it. */
export function tar(entries: readonly TarEntry[]): Uint8Array {
  const blocks: Buffer[] = [];
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? '');
    blocks.push(header(entry, content.length), content, padding(content.length));
  }
  blocks.push(Buffer.alloc(2 * blockBytes));
  return Buffer.concat(blocks);
}

function header({ path, mode, owner }: TarEntry, sizeBytes: number): Buffer {
  const block = Buffer.alloc(blockBytes);
  const { name, prefix } = split(path);
  block.write(name, 0);
  octal(block, 100, 8, mode);
  octal(block, 108, 8, owner);
  octal(block, 116, 8, owner);
  octal(block, 124, 12, sizeBytes);
  // Equal files make equal archives.
  octal(block, 136, 12, 0);
  block.write(path.endsWith('/') ? '5' : '0', 156);
  block.write('ustar\u000000', 257, 'latin1');
  block.write(prefix, 345);
  // The sum is made while its own field holds spaces.
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1');
  return block;
}

function octal(block: Buffer, offset: number, width: number, value: number): void {
  block.write(`${value.toString(8).padStart(width - 1, '0')}\u0000`, offset, 'latin1');
}

function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((blockBytes - (sizeBytes % blockBytes)) % blockBytes);
}

/** A long path is parted at a slash: at most 155 bytes before it, at most 100 after. */
function split(path: string): { name: string; prefix: string } {
  if (Buffer.byteLength(path) <= 100) return { name: path, prefix: '' };
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (name !== '' && Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155)
      return { name, prefix };
  }
  throw new TypeError(`${path} is too long for an archive`);
}
