import { type Document, isMap, isSeq, parse, parseDocument, stringify } from 'yaml';
import type { ConnectionOptions } from './connection.ts';
import { KubeconfigError } from './errors.ts';

/** A kubeconfig as it is written; fields that are not named here survive. */
export interface Kubeconfig {
  'current-context'?: string;
  clusters: { name: string; cluster: Record<string, unknown> }[];
  users: { name: string; user: Record<string, unknown> }[];
  contexts: { name: string; context: { cluster: string; user: string; namespace?: string } }[];
  [field: string]: unknown;
}

export interface RenderedKubeconfig {
  clusterName: string;
  server: string;
  /** PEM. */
  ca: string;
  user: string;
  /** PEM. */
  cert: string;
  /** PEM. */
  key: string;
  /** Default: the cluster's name. */
  context?: string;
  namespace?: string;
}

/** Throws KubeconfigError when the text is no kubeconfig. */
export function parseKubeconfig(yaml: string): Kubeconfig {
  let value: unknown;
  try {
    value = parse(yaml);
  } catch (error) {
    throw new KubeconfigError('InvalidKubeconfig', 'the kubeconfig is not YAML', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new KubeconfigError('InvalidKubeconfig', 'the kubeconfig is empty or not a mapping');
  }
  const config = value as Record<string, unknown>;
  return {
    ...config,
    clusters: named(config, 'clusters', 'cluster') as Kubeconfig['clusters'],
    users: named(config, 'users', 'user') as Kubeconfig['users'],
    contexts: named(config, 'contexts', 'context') as Kubeconfig['contexts'],
  };
}

/** The cluster and user of a context (default: the current one). Throws KubeconfigError when one is missing. */
export function selectContext(
  config: Kubeconfig,
  contextName = config['current-context'],
): { context: string; cluster: Record<string, unknown>; user: Record<string, unknown> } {
  if (!contextName) {
    throw new KubeconfigError('InvalidKubeconfig', 'the kubeconfig has no current-context: name a context');
  }
  const context = config.contexts.find(({ name }) => name === contextName)?.context;
  if (context === undefined) {
    const known = config.contexts.map(({ name }) => name).join(', ') || 'none';
    throw new KubeconfigError('InvalidKubeconfig', `no context "${contextName}"; there are: ${known}`);
  }
  const cluster = config.clusters.find(({ name }) => name === context.cluster)?.cluster;
  const user = config.users.find(({ name }) => name === context.user)?.user;
  if (cluster === undefined || user === undefined) {
    const missing = cluster === undefined ? `cluster "${context.cluster}"` : `user "${context.user}"`;
    throw new KubeconfigError(
      'InvalidKubeconfig',
      `context "${contextName}" names ${missing}, which is not there`,
    );
  }
  return { context: contextName, cluster, user };
}

/**
 * Reads a kubeconfig out of a Secret: YAML, or base64 of it as in `data`. Whoever may write that
 * Secret must not gain more than one connection by it, so only server, CA data and client
 * certificate data are accepted; plugins, file paths, tokens and all else are refused by name.
 */
export function connectionFromSecret(yamlOrData: string): ConnectionOptions {
  // Base64 knows no colon, YAML of a kubeconfig always has one.
  const yaml = yamlOrData.includes(':') ? yamlOrData : Buffer.from(yamlOrData, 'base64').toString();
  const { cluster, user } = selectContext(parseKubeconfig(yaml));
  onlyFields('cluster', cluster, ['server', 'certificate-authority-data']);
  onlyFields('user', user, ['client-certificate-data', 'client-key-data']);
  const server = text(cluster, 'server');
  if (server === undefined || !URL.canParse(server) || new URL(server).protocol !== 'https:') {
    throw new KubeconfigError('ForbiddenField', 'a kubeconfig in a Secret must name an https server');
  }
  return {
    server,
    ca: required(cluster, 'certificate-authority-data'),
    cert: required(user, 'client-certificate-data'),
    key: required(user, 'client-key-data'),
  };
}

/** A kubeconfig with one cluster, one user and one context, which is current. */
export function renderKubeconfig(options: RenderedKubeconfig): string {
  const context = options.context ?? options.clusterName;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: options.clusterName,
        cluster: { server: options.server, 'certificate-authority-data': base64(options.ca) },
      },
    ],
    users: [
      {
        name: options.user,
        user: { 'client-certificate-data': base64(options.cert), 'client-key-data': base64(options.key) },
      },
    ],
    contexts: [
      {
        name: context,
        context: {
          cluster: options.clusterName,
          user: options.user,
          ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
        },
      },
    ],
    'current-context': context,
  };
  return stringify(config, { lineWidth: 0 });
}

/**
 * `existing` with the clusters, users and contexts of `added` put in, those of the same name replaced,
 * and the context of `added` made current. Comments and everything else in `existing` stay.
 */
export function mergeKubeconfig(existing: string, added: string): string {
  const source = parseKubeconfig(added);
  if (existing.trim() === '') return added;
  parseKubeconfig(existing);
  const document = parseDocument(existing);
  for (const section of ['clusters', 'users', 'contexts'] as const) {
    for (const entry of source[section]) putNamed(document, section, entry);
  }
  const current = source['current-context'];
  if (current !== undefined) document.set('current-context', current);
  return document.toString({ lineWidth: 0 });
}

function putNamed(document: Document, section: string, entry: { name: string }): void {
  const entries = document.get(section);
  const node = document.createNode(entry);
  if (!isSeq(entries)) {
    document.set(section, document.createNode([entry]));
    return;
  }
  const index = entries.items.findIndex((item) => isMap(item) && item.get('name') === entry.name);
  if (index === -1) entries.add(node);
  else entries.set(index, node);
  // "clusters: []" would otherwise stay on one line.
  entries.flow = false;
}

function named(config: Record<string, unknown>, section: string, field: string): unknown[] {
  const entries: unknown = config[section] ?? [];
  if (!Array.isArray(entries)) {
    throw new KubeconfigError('InvalidKubeconfig', `"${section}" of the kubeconfig is not a list`);
  }
  return entries.map((entry: unknown) => {
    if (typeof entry !== 'object' || entry === null || !('name' in entry) || typeof entry.name !== 'string') {
      throw new KubeconfigError(
        'InvalidKubeconfig',
        `an entry of "${section}" in the kubeconfig has no name`,
      );
    }
    const content = (entry as Record<string, unknown>)[field] ?? {};
    if (typeof content !== 'object' || Array.isArray(content)) {
      throw new KubeconfigError('InvalidKubeconfig', `"${entry.name}" in "${section}" is not a mapping`);
    }
    return { ...entry, [field]: content };
  });
}

function onlyFields(what: string, content: Record<string, unknown>, allowed: readonly string[]): void {
  for (const field of Object.keys(content)) {
    if (!allowed.includes(field)) {
      throw new KubeconfigError(
        'ForbiddenField',
        `a kubeconfig in a Secret must not have "${field}" in its ${what}; it may have: ${allowed.join(', ')}`,
      );
    }
  }
}

function required(content: Record<string, unknown>, field: string): string {
  const value = text(content, field);
  if (!value) throw new KubeconfigError('InvalidKubeconfig', `the kubeconfig has no "${field}"`);
  return Buffer.from(value, 'base64').toString();
}

export function text(content: Record<string, unknown>, field: string): string | undefined {
  const value = content[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') {
    throw new KubeconfigError('InvalidKubeconfig', `"${field}" of the kubeconfig is not a string`);
  }
  return value;
}

function base64(pem: string): string {
  return Buffer.from(pem).toString('base64');
}
