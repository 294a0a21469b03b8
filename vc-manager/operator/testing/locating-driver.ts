import type { LocateOptions, Location } from '../../drivers/driver.ts';
import { FakeDriver } from './world.ts';

/** Gives each control plane an address of its own. */
export class LocatingDriver extends FakeDriver {
  /** Addresses that lead to API servers, by id. */
  readonly led = new Map<string, string>();
  /** Asked before each; false: somebody else has the address. */
  isFree: (address: string) => boolean = () => true;
  onLocate: () => void = () => {};
  /** An address is given back. */
  onFree: () => void = () => {};

  async routeAddress(id: string, address: string): Promise<boolean> {
    if (!this.isFree(address)) return false;
    this.led.set(id, address);
    return true;
  }

  async unrouteAddress(id: string): Promise<void> {
    this.led.delete(id);
    this.onFree();
  }

  async locate(id: string, { withDatastore }: LocateOptions): Promise<Location> {
    this.onLocate();
    const location = {
      host: '10.96.0.7',
      port: 443,
      names: [`kube-apiserver.skerry-tenant-${id}.svc`],
      bindAddress: '0.0.0.0',
      bindPort: 6443,
    };
    if (!withDatastore) return location;
    return {
      ...location,
      datastore: {
        host: '10.96.0.8',
        port: 2379,
        names: ['etcd.example.svc'],
        isKept: false,
        ports: { etcd: 2379, 'etcd-peer': 2380, 'etcd-metrics': 2381 },
      },
    };
  }
}
