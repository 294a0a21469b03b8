import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

/** The first IPv4 address under which others can reach this machine; undefined when it has loopback only. */
export function machineAddress(
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): string | undefined {
  return Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal, address }) => family === 'IPv4' && !internal && !isLinkLocal(address))
    ?.address;
}

/** What a machine gives itself when nobody gave it an address: good for one cable only. */
function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.');
}
