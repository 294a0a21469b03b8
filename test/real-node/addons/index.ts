import { isAlreadyExists, type KubeClient, type KubeObject, type Resource } from '../../../kube/index.ts';
import { coreDns } from './core-dns.ts';
import { localPathProvisioner } from './local-path.ts';

export type Addon = readonly (readonly [Resource, KubeObject])[];

export interface AddonOptions {
  dnsAddress: string;
  withDns: boolean;
}

/** What a super cluster of real nodes has beside its own components: storage, published to tenants, and DNS. */
export async function createAddons(client: KubeClient, { dnsAddress, withDns }: AddonOptions): Promise<void> {
  const objects: Addon = [...localPathProvisioner(), ...(withDns ? coreDns(dnsAddress) : [])];
  for (const [resource, object] of objects) {
    await client.create(resource, object).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }
}
