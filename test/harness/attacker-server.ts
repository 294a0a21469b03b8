import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createTestCertificates } from '../../kube/testing/index.ts';

/** A server of an attacker, which answers whatever is asked of it with the same text. To be closed. */
export interface AttackerServer {
  readonly port: number;
  readonly ca: string;
  /** Method and path of each request. */
  readonly asked: string[];
  close(): Promise<void>;
}

/** Listens on all addresses of the machine. `answer` is told what was sent. */
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
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    ca,
    asked,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
