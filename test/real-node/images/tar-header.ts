/** One member of a tar archive. Times are zero, so that equal contents are equal archives. */
export interface TarMember {
  /** Relative, without a leading slash; directories without a trailing one. */
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'hardlink';
  mode: number;
  sizeBytes: number;
  uid?: number;
  gid?: number;
  /** Of links. */
  target?: string;
}

const blockBytes = 512;
const typeFlags = { file: '0', hardlink: '1', symlink: '2', directory: '5' } as const;

/** The header blocks of a member; long names are told in a pax header before the member's own. */
export function tarHeader(member: TarMember): Buffer {
  const name = member.type === 'directory' ? `${member.path}/` : member.path;
  const target = member.target ?? '';
  const records = [
    ...(Buffer.byteLength(name) > 100 ? [paxRecord('path', name)] : []),
    ...(Buffer.byteLength(target) > 100 ? [paxRecord('linkpath', target)] : []),
  ].join('');
  const own = header(name, target, typeFlags[member.type], member);
  if (records === '') return own;
  const sizeBytes = Buffer.byteLength(records);
  const pax = header('pax', '', 'x', { mode: 0o644, sizeBytes });
  return Buffer.concat([pax, Buffer.from(records), padding(sizeBytes), own]);
}

/** What fills up the last block of a content. */
export function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((blockBytes - (sizeBytes % blockBytes)) % blockBytes);
}

export const endOfArchive = Buffer.alloc(2 * blockBytes);

function header(
  name: string,
  target: string,
  flag: string,
  { mode, sizeBytes, uid = 0, gid = 0 }: Pick<TarMember, 'mode' | 'sizeBytes' | 'uid' | 'gid'>,
): Buffer {
  const block = Buffer.alloc(blockBytes);
  Buffer.from(name).copy(block, 0, 0, 100);
  octal(mode & 0o7777, 8).copy(block, 100);
  octal(uid, 8).copy(block, 108);
  octal(gid, 8).copy(block, 116);
  octal(sizeBytes, 12).copy(block, 124);
  octal(0, 12).copy(block, 136);
  block.fill(' ', 148, 156);
  block.write(flag, 156);
  Buffer.from(target).copy(block, 157, 0, 100);
  block.write('ustar\0', 257);
  block.write('00', 263);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

function octal(value: number, width: number): Buffer {
  return Buffer.from(`${value.toString(8).padStart(width - 1, '0')}\0`);
}

/** `<length> <key>=<value>\n`, where the length counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = Buffer.byteLength(` ${key}=${value}\n`);
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}
