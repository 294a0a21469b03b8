import { type ClientHttp2Session, connect } from 'node:http2';
import { parse } from 'yaml';
import type { KubeObject } from '../../../kube/index.ts';

interface Kubeconfig {
  clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
  users: { user: { 'client-certificate-data': string; 'client-key-data': string } }[];
}

export interface PlainList {
  readonly items: KubeObject[];
  readonly resourceVersion: string;
}

const answerTimeoutMs = 30_000;

/**
 * An API server by bare HTTP: no line of the client that the syncer uses, so that a fault of that client cannot
 * hide from the checker. Objects always come as the server stores them, never from a cache of ours.
 */
export class PlainApi {
  readonly #kubeconfig: Kubeconfig;
  #session: ClientHttp2Session | undefined;

  constructor(kubeconfig: string) {
    this.#kubeconfig = parse(kubeconfig) as Kubeconfig;
  }

  /** The whole list in one consistent answer. */
  async list(path: string): Promise<PlainList> {
    const text = await this.#get(path);
    const list = JSON.parse(text) as { metadata: { resourceVersion: string }; items: KubeObject[] };
    return { items: list.items, resourceVersion: list.metadata.resourceVersion };
  }

  /** Calls back at each change after a list, and with `ended` when the watch ends, however it ends. */
  watch(path: string, resourceVersion: string, onChange: (ended: boolean) => void): void {
    const stream = this.#open().request({ ':path': `${path}?watch=1&resourceVersion=${resourceVersion}` });
    stream.on('data', () => onChange(false));
    stream.on('error', () => undefined).on('close', () => onChange(true));
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }

  #get(path: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const stream = this.#open().request({ ':path': path, accept: 'application/json' });
      let status = 0;
      let body = '';
      stream.setTimeout(answerTimeoutMs, () => stream.destroy(new Error(`GET ${path}: no answer`)));
      stream.setEncoding('utf8');
      stream.on('response', (headers) => {
        status = Number(headers[':status']);
      });
      stream.on('data', (chunk: string) => {
        body += chunk;
      });
      stream.on('error', reject);
      stream.on('close', () => reject(new Error(`GET ${path}: connection closed`)));
      stream.on('end', () => {
        if (status === 200) resolve(body);
        else reject(new Error(`GET ${path}: ${status} ${body.slice(0, 300)}`));
      });
    });
  }

  #open(): ClientHttp2Session {
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed)
      return this.#session;
    const decode = (text: string | undefined): string => Buffer.from(text ?? '', 'base64').toString();
    const [cluster] = this.#kubeconfig.clusters;
    const [user] = this.#kubeconfig.users;
    const session = connect(cluster?.cluster.server ?? '', {
      ca: decode(cluster?.cluster['certificate-authority-data']),
      cert: decode(user?.user['client-certificate-data']),
      key: decode(user?.user['client-key-data']),
    });
    // Every stream hears of it, too.
    session.on('error', () => undefined);
    this.#session = session;
    return session;
  }
}
