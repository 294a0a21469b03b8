import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { renderKubeconfig } from '../../../kube/index.ts';
import { type CertificateAuthority, issue, type KeyPair } from '../../../vc-manager/pki/index.ts';

/** The authorities of the local super cluster, which a node's programs are known and shown by. */
export class Credentials {
  readonly server: string;
  readonly clientCaFile: string;
  readonly #clientCa: CertificateAuthority;
  readonly #servingCa: CertificateAuthority;

  private constructor(
    server: string,
    clientCaFile: string,
    client: CertificateAuthority,
    serving: CertificateAuthority,
  ) {
    this.server = server;
    this.clientCaFile = clientCaFile;
    this.#clientCa = client;
    this.#servingCa = serving;
  }

  /** Of the stack in this state directory, which must have been started once. */
  static async read(stateDir: string, server: string): Promise<Credentials> {
    const pki = join(stateDir, 'super-cluster', 'pki');
    const authority = async (name: string): Promise<CertificateAuthority> => ({
      certPem: await readFile(join(pki, `${name}.crt`), 'utf8'),
      keyPem: await readFile(join(pki, `${name}.key`), 'utf8'),
    });
    return new Credentials(
      server,
      join(pki, 'client-ca.crt'),
      await authority('client-ca'),
      await authority('serving-ca'),
    );
  }

  async writeKubeconfig(path: string, commonName: string, organizations: readonly string[]): Promise<void> {
    const { certPem, keyPem } = await issue(this.#clientCa, { commonName, organizations, usage: ['client'] });
    const kubeconfig = renderKubeconfig({
      clusterName: 'super-cluster',
      server: this.server,
      ca: this.#servingCa.certPem,
      user: commonName,
      cert: certPem,
      key: keyPem,
    });
    await writeFile(path, kubeconfig, { mode: 0o600 });
  }

  /** What a kubelet shows to API servers. */
  serving(name: string, address: string): Promise<KeyPair> {
    return issue(this.#servingCa, {
      commonName: `system:node:${name}`,
      organizations: ['system:nodes'],
      dnsNames: [name],
      ipAddresses: [address],
      usage: ['server'],
    });
  }
}
