export type NetworkErrorCode =
  | 'invalid-address'
  | 'invalid-range'
  | 'family-not-supported'
  | 'address-out-of-range'
  | 'slice-larger-than-pool'
  | 'invalid-port-range'
  | 'no-free-port'
  | 'cannot-listen';

/** Retryable only where the machine may change: a port that is given back, an address that appears. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly code: NetworkErrorCode;
  /** The text, number or host that the error is about. */
  readonly subject: string;
  readonly retryable: boolean;

  constructor(code: NetworkErrorCode, subject: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.subject = subject;
    this.retryable = code === 'no-free-port' || code === 'cannot-listen';
  }
}

export function invalidAddress(text: string): NetworkError {
  return new NetworkError(
    'invalid-address',
    text,
    `"${text}" is not an IPv4 address. Write four numbers from 0 to 255 without leading zeros, for example 10.112.0.1.`,
  );
}

export function invalidRange(text: string, why: string, remedy: string): NetworkError {
  return new NetworkError('invalid-range', text, `"${text}" is not an address range: ${why}. ${remedy}`);
}

export function familyNotSupported(text: string): NetworkError {
  return new NetworkError(
    'family-not-supported',
    text,
    `"${text}" is IPv6, which is not supported yet. Use an IPv4 range or address, for example 10.112.0.0/12.`,
  );
}
