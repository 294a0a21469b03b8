import { join } from 'node:path';
import { labelKeys } from '../../api/labels.ts';
import type { KubeClient } from '../../kube/index.ts';
import { ensureManagerPki, ensureManagerPkiSecret, type ManagerPki } from '../pki/index.ts';
import type { Cli } from './context.ts';

/** Options about the manager's own certificates. */
export interface PkiFlags {
  etcdEndpoint: string;
  etcdHttpEndpoint?: string;
  systemNamespace: string;
  pkiSecret?: string;
  etcdSecret: string;
  kubeletProxyHost?: string[];
}

interface PkiContext extends Pick<Cli, 'clock' | 'signal'> {
  stateDir: string;
  /** How pods reach this machine. */
  address: string;
  /** The super cluster. */
  client: KubeClient;
}

const loopback = ['127.0.0.1', 'localhost'];

/** Returns the manager's PKI and renews what is due: in the state directory, or in Secrets with --pki-secret. */
export function managerPkiProvider(flags: PkiFlags, place: PkiContext): () => Promise<ManagerPki> {
  const { stateDir, address, client, clock, signal } = place;
  const { pkiSecret } = flags;
  if (pkiSecret === undefined)
    return () => managerPkiInDirectory(stateDir, address, clock, flags.kubeletProxyHost);
  const { etcdEndpoint, etcdHttpEndpoint = etcdEndpoint } = flags;
  const hosts = [etcdEndpoint, etcdHttpEndpoint].map((url) => new URL(url).hostname.replace(/^\[|\]$/g, ''));
  const etcdHosts = [...new Set([...loopback, '::1', ...hosts])];
  let known: ManagerPki | undefined;
  return async () => {
    if (known !== undefined && clock.now() < known.renewAt.getTime()) return known;
    known = await ensureManagerPkiSecret({
      client,
      namespace: flags.systemNamespace,
      name: pkiSecret,
      etcdName: flags.etcdSecret,
      labels: { [labelKeys.managedBy]: 'skerry' },
      etcdHosts,
      kubeletProxyHosts: [...loopback, ...(flags.kubeletProxyHost ?? [])],
      signal,
      now: new Date(clock.now()),
    });
    return known;
  };
}

/** For the same hosts as in the local stack, so that neither replaces the other's certificates. */
export function managerPkiInDirectory(
  stateDir: string,
  advertised: string,
  clock: Cli['clock'],
  more: readonly string[] = [],
): Promise<ManagerPki> {
  return ensureManagerPki(join(stateDir, 'datastore', 'pki'), {
    kubeletProxyHosts: [...loopback, advertised, ...more],
    now: new Date(clock.now()),
  });
}
