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

/**
 * One unary call to etcd as an API server makes it: the user is the common name of the client certificate.
 * `fields` are the byte fields of the request message, by number.
 */
export async function grpcCall(
  endpoint: string,
  identity: GrpcIdentity,
  method: string,
  fields: Record<number, string | Uint8Array>,
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
        const message = decodeURIComponent(String(headers['grpc-message'] ?? ''));
        resolve({ status: Number(headers['grpc-status']), message, body: Buffer.concat(chunks) });
      };
      // A refusal comes without a body, in the headers; anything else ends with trailers.
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('response', finish).on('trailers', finish).once('error', reject);
      stream.end(
        frame(Buffer.concat(Object.entries(fields).map(([number, value]) => field(Number(number), value)))),
      );
    });
  } finally {
    session.destroy();
  }
}

function frame(message: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  return Buffer.concat([header, message]);
}

function field(number: number, value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value as string);
  if (bytes.length > 127) throw new RangeError('only short values are encoded here');
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}
