import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

const region = 'eu-test-1';

/**
 * A fake S3 server that keeps objects in memory, asks for signatures of version 4 and checks them, and takes uploads
 * in parts. It answers with an error of its own where `fail` says so.
 */
export class FakeS3Server {
  readonly accessKeyId = 'AKIATEST';
  readonly secretAccessKey = 'a secret of the test';
  readonly objects = new Map<string, Buffer>();
  readonly uploads = new Map<string, Map<number, Buffer>>();
  /** Keys to an answer in pages of so many. */
  pageSize = 1_000;
  fail: (request: IncomingMessage) => number | undefined = () => undefined;
  /** After so many bytes of an object the connection breaks. */
  breakAfterBytes: number | undefined;
  /** Methods of all requests that came, in order. */
  readonly requests: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FakeS3Server> {
    const server = createServer((request, response) => void fake.#answer(request, response));
    const fake = new FakeS3Server(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return fake;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What a program finds its way and credentials by. */
  get env(): Record<string, string> {
    return {
      AWS_ENDPOINT_URL: this.endpoint,
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: this.accessKeyId,
      AWS_SECRET_ACCESS_KEY: this.secretAccessKey,
    };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push(request.method ?? '');
    const body = await buffer(request);
    const send = (status: number, text = '', headers: Record<string, string> = {}): void => {
      response.writeHead(status, { 'content-type': 'application/xml', ...headers });
      response.end(text);
    };
    const status = this.fail(request);
    if (status !== undefined) return send(status, errorXml('InternalError'));
    if (!this.#isSigned(request)) return send(403, errorXml('SignatureDoesNotMatch'));
    const url = new URL(request.url ?? '/', this.endpoint);
    const [, bucket = '', ...rest] = decodeURIComponent(url.pathname).split('/');
    const key = `${bucket}/${rest.join('/')}`;
    const { searchParams: query } = url;
    const upload = query.get('uploadId') ?? '';
    switch (`${request.method}${query.has('uploads') ? '+uploads' : upload === '' ? '' : '+upload'}`) {
      case 'POST+uploads': {
        const id = `upload-${this.uploads.size + 1}`;
        this.uploads.set(id, new Map());
        return send(
          200,
          `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
        );
      }
      case 'PUT+upload':
        this.uploads.get(upload)?.set(Number(query.get('partNumber')), contentOf(request, body));
        return send(200, '', { etag: `"${query.get('partNumber')}"` });
      case 'POST+upload': {
        const parts = [...(this.uploads.get(upload) ?? [])].sort(([a], [b]) => a - b);
        this.uploads.delete(upload);
        this.objects.set(key, Buffer.concat(parts.map(([, part]) => part)));
        return send(200, `<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>`);
      }
      case 'DELETE+upload':
        this.uploads.delete(upload);
        return send(204);
      case 'PUT':
        this.objects.set(key, contentOf(request, body));
        return send(200, '', { etag: '"e"' });
      case 'DELETE':
        this.objects.delete(key);
        return send(204);
      case 'GET': {
        if (query.get('list-type') === '2') return send(200, this.#list(bucket, query));
        const found = this.objects.get(key);
        if (found === undefined) return send(404, errorXml('NoSuchKey'));
        response.writeHead(200, { 'content-length': String(found.length), etag: '"e"' });
        if (this.breakAfterBytes === undefined) response.end(found);
        else response.write(found.subarray(0, this.breakAfterBytes), () => response.destroy());
        return;
      }
      default:
        return send(501, errorXml('NotImplemented'));
    }
  }

  #list(bucket: string, query: URLSearchParams): string {
    const prefix = `${bucket}/${query.get('prefix') ?? ''}`;
    const after = query.get('continuation-token') ?? '';
    const all = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = all.slice(0, this.pageSize);
    const contents = page.map(
      (key) =>
        `<Contents><Key>${key.slice(bucket.length + 1)}</Key><Size>${this.objects.get(key)?.length}</Size></Contents>`,
    );
    const isTruncated = all.length > page.length;
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    return `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}${next}</ListBucketResult>`;
  }

  /** As "Signature Version 4" of Amazon's documentation says. */
  #isSigned({ method, url = '', headers }: IncomingMessage): boolean {
    const said =
      /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([0-9]{8}\/[^/]+\/s3\/aws4_request), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
        headers.authorization ?? '',
      );
    const [, id, scope = '', names = '', signature = ''] = said ?? [];
    if (id !== this.accessKeyId) return false;
    const { pathname, searchParams } = new URL(url, this.endpoint);
    const encode = (text: string): string =>
      encodeURIComponent(text).replaceAll(
        /[!'()*]/g,
        (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`,
      );
    const query = [...searchParams].map(([key, value]) => `${encode(key)}=${encode(value)}`).sort();
    const canonical = [
      method,
      pathname,
      query.join('&'),
      ...names.split(';').map((name) => `${name}:${String(headers[name]).trim()}`),
      '',
      names,
      headers['x-amz-content-sha256'],
    ].join('\n');
    const toSign = [
      'AWS4-HMAC-SHA256',
      headers['x-amz-date'],
      scope,
      createHash('sha256').update(canonical).digest('hex'),
    ].join('\n');
    const key = scope
      .split('/')
      .reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${this.secretAccessKey}`);
    return timingSafeEqual(hmac(key, toSign), Buffer.from(signature, 'hex'));
  }
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function errorXml(code: string): string {
  return `<Error><Code>${code}</Code><Message>${code}</Message></Error>`;
}

/** Without the frames of the encoding `aws-chunked`, if it has that. */
function contentOf({ headers }: IncomingMessage, body: Buffer): Buffer {
  if (headers['content-encoding']?.includes('aws-chunked') !== true) return body;
  const pieces: Buffer[] = [];
  for (let from = 0; ; ) {
    const end = body.indexOf('\r\n', from);
    const length = Number.parseInt(body.subarray(from, end).toString(), 16);
    if (length === 0 || Number.isNaN(length)) return Buffer.concat(pieces);
    pieces.push(body.subarray(end + 2, end + 2 + length));
    from = end + 2 + length + 2;
  }
}
