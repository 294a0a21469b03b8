import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

interface OutsideDnsOptions {
  host: string;
  port?: number;
  /** Names that end so have this address; no other name exists. */
  suffix: string;
  address: string;
}

const typeA = 1;
const headerBytes = 12;
const noSuchName = 3;
const ttlSeconds = 5;

/** Stands for the DNS of the world outside, which test machines do not have: nodes name it as their server. */
export class OutsideDns {
  readonly #options: OutsideDnsOptions;
  readonly #socket: Socket = createSocket('udp4');

  constructor(options: OutsideDnsOptions) {
    this.#options = options;
    this.#socket.on('message', (question, { address, port }) => {
      const answer = answerTo(question, this.#options);
      if (answer !== undefined) this.#socket.send(answer, port, address);
    });
  }

  get port(): number {
    return this.#socket.address().port;
  }

  async listen(): Promise<void> {
    this.#socket.bind(this.#options.port ?? 53, this.#options.host);
    await once(this.#socket, 'listening');
  }

  async close(): Promise<void> {
    this.#socket.close();
    await once(this.#socket, 'close');
  }
}

/** Undefined for what is no question. */
export function answerTo(
  message: Buffer,
  { suffix, address }: Pick<OutsideDnsOptions, 'suffix' | 'address'>,
): Buffer | undefined {
  const question = readQuestion(message);
  if (question === undefined) return undefined;
  const { name, type, end } = question;
  const exists = name === suffix || name.endsWith(`.${suffix}`);
  const hasAnswer = exists && type === typeA;
  const header = Buffer.alloc(headerBytes);
  message.copy(header, 0, 0, 2);
  // An authoritative answer; recursion is granted when it is asked for.
  header.writeUInt16BE(0x8480 | (message.readUInt16BE(2) & 0x0100) | (exists ? 0 : noSuchName), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(hasAnswer ? 1 : 0, 6);
  const parts = [header, message.subarray(headerBytes, end)];
  if (hasAnswer) {
    const record = Buffer.alloc(16);
    // The name is that of the question.
    record.writeUInt16BE(0xc000 | headerBytes, 0);
    record.writeUInt16BE(typeA, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(ttlSeconds, 6);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split('.').map(Number)).copy(record, 12);
    parts.push(record);
  }
  return Buffer.concat(parts);
}

function readQuestion(message: Buffer): { name: string; type: number; end: number } | undefined {
  const isQuestion = message.length > headerBytes && (message.readUInt16BE(2) & 0x8000) === 0;
  if (!isQuestion || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = headerBytes;
  for (;;) {
    const length = message[at];
    if (length === undefined || length > 63) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at), end: at + 4 };
}
