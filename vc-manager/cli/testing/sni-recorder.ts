import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import type { VirtualClusterStatus } from '../../../api/virtual-cluster.ts';
import { type KubeObject, renderKubeconfig } from '../../../kube/index.ts';
import { createTestCertificates } from '../../../kube/testing/index.ts';

/** A gateway that refuses every connection and records the server names (SNI) that clients ask for. */
export class SniRecorder implements AsyncDisposable {
  readonly heard: string[] = [];
  readonly #server = createServer({
    SNICallback: (name, answer) => {
      this.heard.push(name);
      answer(new Error('nobody is let in'));
    },
  });

  static async start(): Promise<SniRecorder> {
    const names = new SniRecorder();
    names.#server.on('tlsClientError', () => {}).listen(0, '127.0.0.1');
    await once(names.#server, 'listening');
    return names;
  }

  /** In the status of a tenant that is reached here. */
  get gateway(): NonNullable<VirtualClusterStatus['gateway']> {
    const { port } = this.#server.address() as AddressInfo;
    return { server: `https://127.0.0.1:${port}`, serverName: 'blueid.example.com' };
  }

  /** The Secret with the kubeconfig of that tenant, `default/blue`. */
  async secret(): Promise<KubeObject> {
    const { ca, client } = await createTestCertificates();
    const { server } = this.gateway;
    const text = renderKubeconfig({ clusterName: 'blue', server, ca, user: 'admin', ...client });
    const data = { kubeconfig: Buffer.from(text).toString('base64') };
    return { metadata: { namespace: 'default', name: 'blue-kubeconfig' }, data } as KubeObject;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    await once(this.#server, 'close');
  }
}
