import {
  createServer,
  request as forward,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type ConnectionOptions, isRecord } from '../../kube/index.ts';
import { FakeApiServer, type TestCertificates } from '../../kube/testing/index.ts';
import type { Attributes } from '../clients.ts';

/** Whether somebody may do something. */
export type Rule = (attributes: Attributes) => boolean;

const reviews = /^\/apis\/(?:authorization|authentication)\.k8s\.io\/v1\/(selfsubject\w+)$/;

/** A fake API server in front of which stands somebody who knows tokens and what their owners may. */
export class ReviewingServer {
  /** By token. Without a name: somebody who may not ask for it. */
  readonly people = new Map<string, { name: string | undefined; may: Rule }>();
  /** Headers of what was asked, reviews left out. */
  readonly asked: { method: string; path: string; headers: IncomingMessage['headers'] }[] = [];
  readonly api: FakeApiServer;
  readonly #server: Server;
  readonly #certificates: TestCertificates | undefined;

  private constructor(api: FakeApiServer, certificates: TestCertificates | undefined) {
    this.api = api;
    this.#certificates = certificates;
    const listener = (request: IncomingMessage, response: ServerResponse): void => {
      const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '';
      const person = this.people.get(token);
      const send = (status: number, body: object): void => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      };
      const review = reviews.exec(request.url ?? '')?.[1];
      if (person === undefined) {
        send(401, { kind: 'Status', reason: 'Unauthorized', message: 'Unauthorized', code: 401 });
        return;
      }
      if (review === 'selfsubjectreviews') {
        if (person.name === undefined) send(403, { kind: 'Status', reason: 'Forbidden', code: 403 });
        else send(201, { status: { userInfo: { username: person.name } } });
        return;
      }
      if (review !== undefined) {
        void bodyOf(request).then((body) => {
          const spec =
            isRecord(body) && isRecord(body['spec']) ? body['spec']['resourceAttributes'] : undefined;
          send(201, { status: { allowed: person.may(spec as Attributes) } });
        });
        return;
      }
      this.asked.push({ method: request.method ?? '', path: request.url ?? '', headers: request.headers });
      const { authorization: _, ...headers } = request.headers;
      const onward = forward(`${api.url}${request.url}`, { method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      onward.on('error', () => response.destroy());
      response.on('close', () => onward.destroy());
      request.pipe(onward);
    };
    this.#server =
      certificates === undefined
        ? createServer(listener)
        : createTlsServer({ ...certificates.server }, listener);
  }

  static async start(certificates?: TestCertificates): Promise<ReviewingServer> {
    const server = new ReviewingServer(await FakeApiServer.start(), certificates);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  get url(): string {
    const scheme = this.#certificates === undefined ? 'http' : 'https';
    return `${scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** As the owner of a token. */
  options(token: string): ConnectionOptions {
    return {
      server: this.url,
      token,
      ...(this.#certificates === undefined ? {} : { ca: this.#certificates.ca }),
    };
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.api.stop();
  }
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}
