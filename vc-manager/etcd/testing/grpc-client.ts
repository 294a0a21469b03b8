import { connect } from 'node:http2';

interface GrpcIdentity {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** What a gRPC call ended with; 0 is success, 7 is permission denied. */
interface GrpcResult {
  readonly status: number;
  readonly message: string;
  /** What was answered, with its frames. */
  readonly body: Buffer;
}

/** Of a request message: bytes, or a number or enumeration. */
export type FieldValue = string | Uint8Array | bigint;

/** A message whose fields are given by number, as one that is within another is encoded. */
export function message(fields: Record<number, FieldValue>): Buffer {
  return Buffer.concat(Object.entries(fields).map(([number, value]) => field(Number(number), value)));
}

/**
 * One call to etcd as an API server makes it: the user is the common name of the client certificate. `fields` are those of
 * the request message, by number. `streams`: until the first answer of a call that goes on; its status is 0 then.
 */
export async function grpcCall(
  endpoint: string,
  identity: GrpcIdentity,
  method: string,
  fields: Record<number, FieldValue>,
  { streams = false } = {},
): Promise<GrpcResult> {
  const session = connect(endpoint, identity);
  try {
    return await new Promise<GrpcResult>((resolve, reject) => {
      session.once('error', reject);
      const stream = session.request({
        ':method': 'POST',
        ':path': `/etcdserverpb.${method}`,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      const chunks: Buffer[] = [];
      const finish = (headers: Record<string, unknown>) => {
        if (headers['grpc-status'] === undefined) return;
        const text = decodeURIComponent(String(headers['grpc-message'] ?? ''));
        resolve({ status: Number(headers['grpc-status']), message: text, body: Buffer.concat(chunks) });
      };
      // A refusal comes without a body, in the headers; anything else ends with trailers.
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (streams) resolve({ status: 0, message: '', body: chunk });
      });
      stream.on('response', finish).on('trailers', finish).once('error', reject);
      const request = frame(message(fields));
      if (streams) stream.write(request);
      else stream.end(request);
    });
  } finally {
    session.destroy();
  }
}

function frame(content: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(content.length, 1);
  return Buffer.concat([header, content]);
}

function field(number: number, value: FieldValue): Buffer {
  if (typeof value === 'bigint') return Buffer.concat([Buffer.from([number << 3]), varint(value)]);
  const bytes = Buffer.from(value as string);
  if (bytes.length > 127) throw new RangeError('only short values are encoded here');
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  do {
    const more = rest > 0x7fn;
    bytes.push(Number(rest & 0x7fn) | (more ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes);
}
