/** Version 1 takes 107 bytes at most; of version 2, addresses and a few extensions. */
const longestText = 107;
const longestBinary = 16 + 1024;
const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

export type ProxyHeader = { kind: 'incomplete' } | { kind: 'invalid' } | { kind: 'header'; length: number };

/**
 * The header of the PROXY protocol, version 1 or 2, with which a load balancer begins each connection. Only its length is
 * of interest here.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (isPrefix(bytes, signature)) {
    if (bytes.length < 16) return { kind: 'incomplete' };
    const length = 16 + bytes.readUInt16BE(14);
    if ((bytes.readUInt8(12) & 0xf0) !== 0x20 || length > longestBinary) return { kind: 'invalid' };
    return bytes.length < length ? { kind: 'incomplete' } : { kind: 'header', length };
  }
  if (!isPrefix(bytes, Buffer.from('PROXY '))) return { kind: 'invalid' };
  const end = bytes.subarray(0, longestText).indexOf('\r\n');
  if (end !== -1) return { kind: 'header', length: end + 2 };
  return bytes.length < longestText ? { kind: 'incomplete' } : { kind: 'invalid' };
}

/** Whether one of both begins with the other. */
function isPrefix(bytes: Buffer, wanted: Buffer): boolean {
  const length = Math.min(bytes.length, wanted.length);
  return bytes.subarray(0, length).equals(wanted.subarray(0, length));
}
