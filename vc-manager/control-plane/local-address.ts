/** The address at which a server bound to `bindAddress` is reached from its own machine. */
export function localAddress(bindAddress: string): string {
  if (bindAddress === '0.0.0.0') return '127.0.0.1';
  return bindAddress === '::' ? '::1' : bindAddress;
}
