import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

/** Clients in a process of their own, as each takes a file of it. */
export interface ClientsRequest {
  /** Of the gateway. */
  port: number;
  ca: string;
  /** In turn, until there are `count`; each with the port of its API server. */
  tenants: readonly { name: string; serverPort: number }[];
  count: number;
}

/** Of all connections, kept open to the end, which were answered by the right server. */
export interface ClientsReply {
  opened: number;
  /** Once all were open. */
  answered: number;
  problems: Record<string, number>;
}

const atOnce = 64;
const patienceMs = 60_000;

process.once('message', (request: ClientsRequest) => void connectAll(request));
process.once('disconnect', () => process.exit());

async function connectAll({ port, ca, tenants, count }: ClientsRequest): Promise<void> {
  let answered = 0;
  const problems: Record<string, number> = {};
  const clients: { socket: TLSSocket; wanted: string }[] = [];
  const failed = (error: unknown): void => {
    const why = error instanceof Error ? error.message : String(error);
    problems[why] = (problems[why] ?? 0) + 1;
  };
  const open = async (index: number): Promise<void> => {
    const tenant = tenants[index % tenants.length];
    if (tenant === undefined) throw new Error('no tenants');
    const socket = connect({ port, host: '127.0.0.1', ca, servername: tenant.name });
    try {
      await once(socket, 'secureConnect', { signal: AbortSignal.timeout(patienceMs) });
      socket.on('error', failed);
      clients.push({ socket, wanted: `${tenant.name} ${tenant.serverPort}\n` });
    } catch (error) {
      socket.on('error', () => undefined).destroy();
      failed(error);
    }
  };
  const ask = async ({ socket, wanted }: (typeof clients)[0]): Promise<void> => {
    socket.write('who\n');
    const [answer] = await once(socket, 'data', { signal: AbortSignal.timeout(patienceMs) });
    if (String(answer) !== wanted) throw new Error(`"${answer}" in place of "${wanted}"`);
    answered += 1;
  };
  await inTurn(count, open);
  const all = [...clients];
  await inTurn(all.length, async (index) => {
    const client = all[index];
    if (client !== undefined) await ask(client).catch(failed);
  });
  process.send?.({ opened: all.length, answered, problems } satisfies ClientsReply);
}

async function inTurn(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
