import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { createTestCertificates } from '../../kube/testing/index.ts';

const [firstPort, lastPort] = [24_000, 24_999];

/** What tenants' API servers may dial on this machine, of an option `--tenant-egress` of the stack. */
export const tenantEgress = `0.0.0.0/0:${firstPort}-${lastPort}`;

/** Listens where tenants' API servers get to. Returns the port. */
export async function listenInReach(server: Server, host: string): Promise<number> {
  for (;;) {
    const port = firstPort + Math.floor(Math.random() * (lastPort - firstPort + 1));
    const outcome = Promise.withResolvers<unknown>();
    server.once('error', outcome.resolve).listen(port, host, () => outcome.resolve(undefined));
    const error = await outcome.promise;
    server.off('error', outcome.resolve);
    if (error === undefined) return (server.address() as AddressInfo).port;
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
  }
}

/** A server of an attacker, which answers whatever is asked of it with the same text. To be closed. */
export interface AttackerServer {
  readonly port: number;
  readonly ca: string;
  /** Method and path of each request. */
  readonly asked: string[];
  close(): Promise<void>;
}

/** Listens on all addresses of the machine, where tenants may dial. `answer` is told what was sent. */
export async function startAttackerServer(answer: (body: string) => string): Promise<AttackerServer> {
  const { ca, server: identity } = await createTestCertificates();
  const asked: string[] = [];
  const server = createServer(identity, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      asked.push(`${request.method} ${request.url}`);
      response.setHeader('content-type', 'application/json');
      response.end(answer(Buffer.concat(chunks).toString()));
    });
  });
  return {
    port: await listenInReach(server, '0.0.0.0'),
    ca,
    asked,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
