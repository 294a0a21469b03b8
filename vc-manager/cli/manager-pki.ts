import { join } from 'node:path';
import { labelKeys } from '../../api/labels.ts';
import type { KubeClient } from '../../kube/index.ts';
import { ensureManagerPki, ensureManagerPkiSecret, type ManagerPki } from '../pki/index.ts';
import type { Cli } from './context.ts';

/** What of the command line is about the manager's own certificates. */
export interface PkiFlags {
  etcdEndpoint: string;
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

/** Answers with the manager's PKI, and renews what is due: in the state directory, or in Secrets where one is named. */
export function managerPkiProvider(flags: PkiFlags, place: PkiContext): () => Promise<ManagerPki> {
  const { stateDir, address, client, clock, signal } = place;
  const { pkiSecret } = flags;
  if (pkiSecret === undefined)
    return () => managerPkiInDirectory(stateDir, address, clock, flags.kubeletProxyHost);
  const etcdHosts = [...loopback, '::1', new URL(flags.etcdEndpoint).hostname.replace(/^\[|\]$/g, '')];
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

/** The same hosts as the local stack names, so that the two do not issue over each other. */
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
