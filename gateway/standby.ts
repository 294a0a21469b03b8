import { isIPv6, type Socket, connect as tcpConnect } from 'node:net';
import { connect } from 'node:tls';
import { backgroundPrefix } from '../api/names.ts';
import { Backoff, type Clock } from '../kube/index.ts';
import { ListenError } from '../program/addresses.ts';

/*
 * What a gateway does whose port is taken. Another gateway of the same stack may have it: this one waits, and goes on when
 * that one has ended. Any other holder it names in its error, and exits: a program that runs would look as if it served.
 */

/**
 * Who answers at a port: a gateway that knows these tenants, one that knows none of them, another program, nothing, or
 * one that closes the connection without an answer, as a program does that is just exiting. It is asked as a client asks, for the
 * name of a tenant and for one that no tenant has. A gateway refuses the latter in terms of TLS; of the former it says
 * more where it knows the tenant.
 */
export type PortHolder = 'same-stack' | 'other-gateway' | 'other-program' | 'busy' | 'silent' | 'nobody';

interface Question {
  host: string;
  port: number;
  domain: string;
  /** Of a tenant that this gateway knows, if it knows any. */
  id: string | undefined;
  /** Whether connections begin with a header of the PROXY protocol. */
  proxyProtocol: boolean;
  signal: AbortSignal;
  /** Default: 5 s. */
  timeoutMs?: number;
}

/** Ids have no dash. */
const unknownTenantId = 'no-tenant';

export async function portHolder(question: Question): Promise<PortHolder> {
  const { id, domain } = question;
  const ofUnknownTenant = await ask(question, `${unknownTenantId}.${domain}`);
  if (ofUnknownTenant === 'nobody' || ofUnknownTenant === 'silent' || ofUnknownTenant === 'busy')
    return ofUnknownTenant;
  if (ofUnknownTenant !== 'unknown') return 'other-program';
  if (id === undefined) return 'other-gateway';
  // By this name it neither wakes the tenant nor counts as its use.
  const known = await ask(question, `${backgroundPrefix}${id}.${domain}`);
  if (known === 'nobody') return known;
  // It is a gateway of this domain: whatever its tenant's API server says or does not say, it knows it.
  return known === 'unknown' ? 'other-gateway' : 'same-stack';
}

type Answer = 'known' | 'unknown' | 'busy' | 'unclear' | 'silent' | 'nobody';

async function ask(
  { host, port, proxyProtocol, signal, timeoutMs = 5_000 }: Question,
  servername: string,
): Promise<Answer> {
  const socket = tcpConnect({ host: reachable(host), port });
  const ends = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const end = (): void => void socket.destroy();
  ends.addEventListener('abort', end, { once: true });
  if (ends.aborted) end();
  try {
    if (!(await isConnected(socket))) return 'nobody';
    if (proxyProtocol) socket.write('PROXY UNKNOWN\r\n');
    return await tlsAnswer(socket, servername);
  } finally {
    ends.removeEventListener('abort', end);
    socket.destroy();
  }
}

function isConnected(socket: Socket): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(true));
    socket.once('close', () => resolve(false));
    socket.on('error', () => undefined);
  });
}

function tlsAnswer(socket: Socket, servername: string): Promise<Answer> {
  return new Promise((resolve) => {
    // Who it is does not matter, only what it says: nothing is sent to it.
    const tls = connect({ socket, servername, rejectUnauthorized: false });
    tls.once('secureConnect', () => resolve('known'));
    tls.on('error', ({ code = '' }: NodeJS.ErrnoException) => {
      if (code.includes('UNRECOGNIZED_NAME')) resolve('unknown');
      // It has enough connections, or knows the tenant, and that is asleep or has enough.
      else if (code.includes('ALERT_INTERNAL_ERROR')) resolve('busy');
      else resolve(socket.bytesRead > 0 ? 'unclear' : 'silent');
    });
    tls.once('close', () => resolve(socket.bytesRead > 0 ? 'unclear' : 'silent'));
  });
}

function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return isIPv6(host) && /^[0:]+$/.test(host) ? '::1' : host;
}

interface StandbyOptions {
  host: string;
  port: number;
  /** Listens there; returns the port. */
  listen: () => Promise<number>;
  holder: () => Promise<PortHolder>;
  /** It waits: `why` in words. */
  onWait: (why: string) => void;
  clock: Clock;
  random: () => number;
  signal: AbortSignal;
}

/** As often in a row without a word of TLS, and it is no gateway that is just ending. */
const maxUnanswered = 5;
const minPauseMs = 250;
const maxPauseMs = 4_000;

/**
 * Listens, also when that is possible only after another gateway of the same stack has ended. Returns the port.
 * Throws a ListenError when something else has the port, and the reason of the signal.
 */
export async function listenOrStandBy(options: StandbyOptions): Promise<number> {
  const { host, port, clock, random, signal } = options;
  const backoff = new Backoff({ clock, random, minMs: minPauseMs, maxMs: maxPauseMs });
  let told: string | undefined;
  let unanswered = 0;
  for (;;) {
    try {
      return await options.listen();
    } catch (error) {
      const cause = error as NodeJS.ErrnoException;
      const holder = cause.code === 'EADDRINUSE' ? await options.holder() : undefined;
      signal.throwIfAborted();
      unanswered = holder === 'silent' || holder === 'nobody' ? unanswered + 1 : 0;
      const why = holder === undefined || unanswered >= maxUnanswered ? undefined : waiting[holder];
      if (why === undefined)
        throw new ListenError('serve tenants', host, port, cause, holder && remedies[holder]);
      if (why !== told) options.onWait(why);
      told = why;
    }
    await clock.sleep(backoff.next(), signal);
  }
}

const waiting: Partial<Record<PortHolder, string>> = {
  'same-stack': 'another gateway of this stack listens on the port: this one takes over when that one stops',
  silent: 'the port is in use by a program that closes connections without an answer: trying again',
  busy: 'the port is in use by a gateway at its limit of connections: trying again',
  nobody: 'the port is in use, but nothing answers there: trying again',
};

const noGateway =
  'another program, not a vc-gateway, listens on the port: stop it, or choose another port with --listen of this gateway ' +
  'and --gateway of the manager';

const remedies: Partial<Record<PortHolder, string>> = {
  'other-gateway':
    'a vc-gateway of another stack, or with another --domain, listens on the port. Choose another port with --listen of this ' +
    'gateway and --gateway of the manager',
  'other-program': noGateway,
  silent: noGateway,
  nobody:
    'the port is in use, perhaps at another address of this machine, but nothing answers there: stop the program that uses it, ' +
    'or choose another port with --listen of this gateway and --gateway of the manager',
};
