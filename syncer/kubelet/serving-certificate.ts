import { kubeletProxySecretName } from '../../api/names.ts';
import {
  type Clock,
  decodeSecretData,
  type KubeClient,
  Reflector,
  resources,
  type Secret,
  Store,
} from '../../kube/index.ts';

/** What this server shows to tenants' API servers. */
export interface ServingCertificate {
  readonly cert: string;
  readonly key: string;
}

/** A serving certificate and the authority by which it is known. */
export interface ServingIdentity {
  readonly certificate: ServingCertificate;
  readonly ca: string;
}

interface FollowOptions {
  client: KubeClient;
  /** Skerry's own, where the manager puts it. */
  namespace: string;
  clock: Clock;
  /** Called with the first and with each that is another. */
  onIdentity: (identity: ServingIdentity) => void;
  /** There is none yet, or it cannot be read: in a sentence. */
  onWait: (why: string) => void;
}

/** Follows the certificate that the manager makes for us and renews in time, until aborted. */
export async function followServingIdentity(options: FollowOptions, signal: AbortSignal): Promise<void> {
  const { client, clock, namespace, onIdentity, onWait } = options;
  const store = new Store<Secret>();
  let last = '';
  const take = (secret: Secret | undefined): void => {
    const identity = read(secret, `${namespace}/${kubeletProxySecretName}`);
    const text = JSON.stringify(identity);
    if (typeof identity === 'string') onWait(identity);
    else if (text !== last) {
      last = text;
      onIdentity(identity);
    }
  };
  // One that is gone is no reason to stop serving with what there was.
  const unsubscribe = store.subscribe(({ type, object }) => type !== 'deleted' && take(object));
  const reflector = new Reflector<Secret>({
    client,
    clock,
    store,
    resource: resources.secrets,
    namespace,
    fieldSelector: `metadata.name=${kubeletProxySecretName}`,
    onProblem: ({ error }) => onWait(String(error)),
  });
  reflector.synced(signal).then(
    () => store.size === 0 && take(undefined),
    () => undefined,
  );
  try {
    await reflector.run(signal);
  } finally {
    unsubscribe();
  }
}

function read(secret: Secret | undefined, ref: string): ServingIdentity | string {
  if (secret === undefined) return `there is no Secret ${ref} yet`;
  const { 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca } = decodeSecretData(secret);
  if (cert === undefined || key === undefined || ca === undefined) {
    return `Secret ${ref} has no tls.crt, tls.key or ca.crt`;
  }
  return { certificate: { cert, key }, ca };
}
