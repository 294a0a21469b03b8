import { type Clock, type KubeClient, type KubeObject, resources } from '../../kube/index.ts';

const secretRef = { namespace: 'skerry-system', name: 'skerry-kubelet-proxy' };
const retryMs = 1_000;

export interface ServingCertificate {
  readonly cert: string;
  readonly key: string;
}

/** Reads the certificate that the manager has made for us, and waits for it while there is none. */
export async function readServingCertificate(
  client: KubeClient,
  clock: Clock,
  signal: AbortSignal,
  onWait: (error: unknown) => void,
): Promise<ServingCertificate> {
  for (;;) {
    try {
      const secret = await client.get<KubeObject & { data?: Record<string, string> }>(
        resources.secrets,
        secretRef,
        {
          signal,
        },
      );
      const cert = secret.data?.['tls.crt'];
      const key = secret.data?.['tls.key'];
      if (cert === undefined || key === undefined) throw new Error('the Secret has no tls.crt or no tls.key');
      return { cert: decode(cert), key: decode(key) };
    } catch (error) {
      if (signal.aborted) throw error;
      onWait(error);
      await clock.sleep(retryMs, signal);
    }
  }
}

function decode(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8');
}
