export { type Address, addressAt, type Cidr, cidrContains, cidrsOverlap } from './cidr.ts';
export { NetworkError, type NetworkErrorCode } from './errors.ts';
export { type FreePortOptions, freePort } from './free-port.ts';
export { machineAddress } from './machine-address.ts';
export { allocateSlice } from './slices.ts';
