export type HealthServerErrorCode =
  | 'AddressInUse'
  | 'AddressNotAvailable'
  | 'PortNotPermitted'
  | 'CannotListen';

/** The health server could not be started. */
export class HealthServerError extends Error {
  override readonly name = 'HealthServerError';
  readonly code: HealthServerErrorCode;
  readonly retryable = false;
  readonly host: string;
  readonly port: number;

  constructor(host: string, port: number, cause: NodeJS.ErrnoException) {
    const [code, remedy] = explain(cause);
    super(`cannot serve metrics on ${host}:${port}: ${remedy}`, { cause });
    this.code = code;
    this.host = host;
    this.port = port;
  }
}

function explain(cause: NodeJS.ErrnoException): [HealthServerErrorCode, string] {
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
