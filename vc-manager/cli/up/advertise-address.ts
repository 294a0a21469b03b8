import { machineAddress } from '../../os/network.ts';

// Of a range that is nobody's (RFC 5737). Pods of simulated nodes dial nothing, and Kubernetes refuses loopback.
const nobody = '192.0.2.1';

/** The address under which tenants' API servers are published; a machine without a network gets one that leads nowhere. */
export function advertiseAddress(): string {
  return machineAddress() ?? nobody;
}
