import { isIPv4, isIPv6 } from 'node:net';
import { CodedError } from '../kube/index.ts';

/** As a URL names it: an IPv6 address in brackets. */
export function hostInUrl(host: string): string {
  return isIPv6(host) ? `[${host}]` : host;
}

/** Whether only the machine itself reaches this address or name; in brackets, as in a URL, or without. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  return bare === 'localhost' || bare === '::1' || (isIPv4(bare) && bare.startsWith('127.'));
}

type ListenErrorCode = 'AddressInUse' | 'AddressNotAvailable' | 'PortNotPermitted' | 'CannotListen';

/** A server could not be started at its address. */
export class ListenError extends CodedError<ListenErrorCode> {
  override readonly name = 'ListenError';
  readonly host: string;
  readonly port: number;

  /** `what`: what cannot be done there, as in "serve metrics". `remedy`: in place of what the cause says. */
  constructor(what: string, host: string, port: number, cause: NodeJS.ErrnoException, remedy?: string) {
    const [code, usual] = explain(cause);
    super(code, `cannot ${what} on ${host}:${port}: ${remedy ?? usual}`, false, { cause });
    this.host = host;
    this.port = port;
  }
}

function explain(cause: NodeJS.ErrnoException): [ListenErrorCode, string] {
  switch (cause.code ?? '') {
    case 'EADDRINUSE':
      return ['AddressInUse', 'the port is taken; stop what listens there, or choose another address'];
    case 'EADDRNOTAVAIL':
      return ['AddressNotAvailable', 'this machine does not have that address; choose one that it has'];
    case 'EACCES':
      return ['PortNotPermitted', 'ports below 1024 need privileges; choose a higher one'];
    default:
      return ['CannotListen', cause.message];
  }
}
