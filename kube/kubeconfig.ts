import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { type Document, isMap, isSeq, parse, parseDocument, stringify } from 'yaml';
import type { ConnectionOptions } from './connection.ts';
import { KubeconfigError, messageOf } from './errors.ts';
import { withoutUndefined } from './types.ts';

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
  /** Name that the server's certificate is for, and by which a gateway finds the server; default: the host of `server`. */
  tlsServerName?: string | undefined;
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

function invalid(message: string, options?: ErrorOptions): KubeconfigError {
  return new KubeconfigError('InvalidKubeconfig', message, options);
}

/** Throws KubeconfigError when the text is no kubeconfig. */
export function parseKubeconfig(yaml: string): Kubeconfig {
  return kubeconfigOf(yaml, true);
}

/** `uniqueKeys`: whether a key that comes twice is an error. To look for one takes time that grows with the square of the keys. */
function kubeconfigOf(yaml: string, uniqueKeys: boolean): Kubeconfig {
  let value: unknown;
  try {
    // Warnings and pretty errors repeat the text, which may be a Secret's.
    value = parse(yaml, { logLevel: 'error', prettyErrors: false, uniqueKeys });
  } catch (error) {
    throw invalid('the kubeconfig is not YAML', { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalid('the kubeconfig is empty or not a mapping');
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
function selectContext(
  config: Kubeconfig,
  contextName = config['current-context'],
): { context: string; cluster: Record<string, unknown>; user: Record<string, unknown> } {
  if (!contextName) {
    throw invalid('the kubeconfig has no current-context: name a context');
  }
  const context = config.contexts.find(({ name }) => name === contextName)?.context;
  if (context === undefined) {
    const known = config.contexts.map(({ name }) => name).join(', ') || 'none';
    throw invalid(`no context "${contextName}"; there are: ${known}`);
  }
  const cluster = config.clusters.find(({ name }) => name === context.cluster)?.cluster;
  const user = config.users.find(({ name }) => name === context.user)?.user;
  if (cluster === undefined || user === undefined) {
    const missing = cluster === undefined ? `cluster "${context.cluster}"` : `user "${context.user}"`;
    throw invalid(`context "${contextName}" names ${missing}, which is not there`);
  }
  return { context: contextName, cluster, user };
}

/** Of a kubeconfig in a Secret, as YAML: several times what the manager writes. The parser takes long for some of what is larger. */
const secretBytes = 32 * 1024;

/**
 * Reads a kubeconfig out of a Secret: YAML, or base64 of it as in `data`. A user who may write that
 * Secret must not gain more than one connection by it, so only server, its name, CA data and client
 * certificate data are accepted; plugins, file paths, tokens and all else are refused by name. No more than
 * `secretBytes` are read, as parsing holds up the thread. Throws KubeconfigError.
 */
export function connectionFromSecret(
  yamlOrData: string,
): ConnectionOptions & Readonly<Record<'ca' | 'cert' | 'key', string>> {
  // Base64 knows no colon, YAML of a kubeconfig always has one.
  const yaml = yamlOrData.includes(':') ? yamlOrData : Buffer.from(yamlOrData, 'base64').toString();
  if (Buffer.byteLength(yaml) > secretBytes) {
    throw invalid(`a kubeconfig in a Secret must not be larger than ${secretBytes / 1024} KiB`);
  }
  const { cluster, user } = selectContext(kubeconfigOf(yaml, false));
  onlyFields('cluster', cluster, ['server', 'tls-server-name', 'certificate-authority-data']);
  onlyFields('user', user, ['client-certificate-data', 'client-key-data']);
  const server = text(cluster, 'server');
  if (server === undefined || !URL.canParse(server) || new URL(server).protocol !== 'https:') {
    throw new KubeconfigError('ForbiddenField', 'a kubeconfig in a Secret must name an https server');
  }
  return withoutUndefined({
    server,
    tlsServerName: text(cluster, 'tls-server-name'),
    ca: required(cluster, 'certificate-authority-data'),
    cert: required(user, 'client-certificate-data'),
    key: required(user, 'client-key-data'),
  });
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
        cluster: {
          server: options.server,
          'tls-server-name': options.tlsServerName,
          'certificate-authority-data': base64(options.ca),
        },
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
        context: { cluster: options.clusterName, user: options.user, namespace: options.namespace },
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

/** Name of the extension of a context that says which one was current before it. */
const previousExtension = 'skerry.dev/previous-context';

/**
 * `added` with a note in its current context of the context that is current in `existing`: for `leaveContext`. What a
 * context of an earlier note goes back to is kept.
 */
export function rememberContext(added: string, existing: string): string {
  const { contexts, 'current-context': current = '' } = parseKubeconfig(
    existing.trim() === '' ? '{}' : existing,
  );
  const document = parseDocument(added);
  const entry = contexts.find(({ name }) => name === current);
  const previous = entry === undefined ? current : (previousOf(entry.context) ?? current);
  const extension = { name: previousExtension, extension: { context: previous } };
  document.setIn(['contexts', 0, 'context', 'extensions'], document.createNode([extension]));
  return document.toString({ lineWidth: 0 });
}

/**
 * `existing` without its current context, which `rememberContext` has made, and with the one from before as the current one.
 * Undefined when the current context was made by something else.
 */
export function leaveContext(
  existing: string,
): { text: string; context: string; current: string | undefined } | undefined {
  if (existing.trim() === '') return undefined;
  const { contexts, 'current-context': context } = parseKubeconfig(existing);
  const entry = contexts.find(({ name }) => name === context);
  const previous = entry === undefined ? undefined : previousOf(entry.context);
  if (entry === undefined || context === undefined || previous === undefined) return undefined;
  const document = parseDocument(existing);
  const others = contexts.filter((each) => each !== entry);
  removeNamed(document, 'contexts', entry.name);
  for (const [section, name] of [
    ['clusters', entry.context.cluster],
    ['users', entry.context.user],
  ] as const) {
    const isUsed = others.some((each) => each.context.cluster === name || each.context.user === name);
    if (!isUsed) removeNamed(document, section, name);
  }
  const current = others.some(({ name }) => name === previous) ? previous : undefined;
  document.set('current-context', current ?? '');
  return { text: document.toString({ lineWidth: 0 }), context, current };
}

function previousOf(context: Record<string, unknown>): string | undefined {
  const extensions: unknown = context['extensions'];
  if (!Array.isArray(extensions)) return undefined;
  for (const each of extensions as { name?: unknown; extension?: { context?: unknown } }[]) {
    if (each?.name === previousExtension && typeof each.extension?.context === 'string')
      return each.extension.context;
  }
  return undefined;
}

function removeNamed(document: Document, section: string, name: string): void {
  const entries = document.get(section);
  if (!isSeq(entries)) return;
  const index = entries.items.findIndex((item) => isMap(item) && item.get('name') === name);
  if (index !== -1) entries.delete(index);
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
    throw invalid(`"${section}" of the kubeconfig is not a list`);
  }
  return entries.map((entry: unknown) => {
    if (typeof entry !== 'object' || entry === null || !('name' in entry) || typeof entry.name !== 'string') {
      throw invalid(`an entry of "${section}" in the kubeconfig has no name`);
    }
    const content = (entry as Record<string, unknown>)[field] ?? {};
    if (typeof content !== 'object' || Array.isArray(content)) {
      throw invalid(`"${entry.name}" in "${section}" is not a mapping`);
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
  if (!value) throw invalid(`the kubeconfig has no "${field}"`);
  return Buffer.from(value, 'base64').toString();
}

function text(content: Record<string, unknown>, field: string): string | undefined {
  const value = content[field];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') {
    throw invalid(`"${field}" of the kubeconfig is not a string`);
  }
  return value;
}

function base64(pem: string): string {
  return Buffer.from(pem).toString('base64');
}

/** How long credentials of a plugin or a token file are used before they are asked for again. */
const credentialsMs = 30_000;

/**
 * The connection to the super cluster by a person's kubeconfig: the file given, else `$KUBECONFIG` (several files, the
 * first mention of a name wins), else `~/.kube/config`. Without `context` it is the current one; where that is a
 * tenant's (`rememberContext`), the one from before it. Paths in it are relative to its file. Plugins are run, through a
 * library that is loaded only then.
 */
export async function loadKubeconfig(
  file?: string,
  context?: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ConnectionOptions> {
  const config = await readKubeconfigs(file === undefined ? defaultFiles(env) : [file], file !== undefined);
  const selected = selectContext(config, context ?? superClusterContext(config));
  const { cluster, user } = selected;
  const server = text(cluster, 'server');
  if (!server) throw invalid(`the cluster of "${selected.context}" has no server`);
  for (const [content, field] of [
    [cluster, 'proxy-url'],
    [user, 'username'],
    [user, 'as'],
  ] as const) {
    if (content[field] !== undefined) {
      throw new KubeconfigError('UnsupportedField', `"${field}" in a kubeconfig is not supported`);
    }
  }
  return {
    server,
    ca: await pem(cluster, 'certificate-authority'),
    tlsServerName: text(cluster, 'tls-server-name'),
    ...(cluster['insecure-skip-tls-verify'] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(await credentials(user, config, selected.context)),
  };
}

/** The current context, or the one from before a tenant's was made current. */
function superClusterContext({ contexts, 'current-context': current }: Kubeconfig): string | undefined {
  const entry = contexts.find(({ name }) => name === current);
  const previous = entry === undefined ? undefined : previousOf(entry.context);
  if (previous !== '') return previous ?? current;
  throw invalid(
    `the current context "${current}" is a tenant's, and none was current before it: name a context`,
  );
}

function defaultFiles(env: NodeJS.ProcessEnv): string[] {
  const files = (env['KUBECONFIG'] ?? '').split(path.delimiter).filter((each) => each !== '');
  return files.length > 0 ? files : [path.join(env['HOME'] ?? homedir(), '.kube', 'config')];
}

async function readKubeconfigs(files: readonly string[], mustExist: boolean): Promise<Kubeconfig> {
  const merged: Kubeconfig = { clusters: [], users: [], contexts: [] };
  let found = false;
  for (const file of files) {
    let yaml: string;
    try {
      yaml = await readFile(file, 'utf8');
    } catch (error) {
      const code = codeOf(error);
      if (code === 'ENOENT' && !mustExist) continue;
      const why = readProblems[code] ?? code;
      throw new KubeconfigError('KubeconfigNotFound', `cannot read the kubeconfig ${file}: ${why}`, {
        cause: error,
      });
    }
    if (yaml.trim() === '' && !mustExist) continue;
    found = true;
    const config = absolute(parseKubeconfigFile(file, yaml), path.dirname(path.resolve(file)));
    if (merged['current-context'] === undefined && config['current-context']) {
      merged['current-context'] = config['current-context'];
    }
    addMissing(merged.clusters, config.clusters);
    addMissing(merged.users, config.users);
    addMissing(merged.contexts, config.contexts);
  }
  if (!found) {
    throw new KubeconfigError(
      'KubeconfigNotFound',
      `there is no kubeconfig at ${files.join(', ')}: give one, or set KUBECONFIG`,
    );
  }
  return merged;
}

const readProblems: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'it may not be read by this user',
  EISDIR: 'it is a directory',
};

/** With the name of the file, of which there may be several, in the error. */
function parseKubeconfigFile(file: string, yaml: string): Kubeconfig {
  try {
    return parseKubeconfig(yaml);
  } catch (error) {
    if (!(error instanceof KubeconfigError)) throw error;
    throw new KubeconfigError(error.code, `${file}: ${error.message}`, { cause: error });
  }
}

function addMissing<E extends { name: string }>(to: E[], from: readonly E[]): void {
  for (const entry of from) if (!to.some(({ name }) => name === entry.name)) to.push(entry);
}

function absolute(config: Kubeconfig, directory: string): Kubeconfig {
  const resolve = (content: Record<string, unknown>, field: string): void => {
    const value = text(content, field);
    if (value) content[field] = path.resolve(directory, value);
  };
  for (const { cluster } of config.clusters) resolve(cluster, 'certificate-authority');
  for (const { user } of config.users) {
    for (const field of ['client-certificate', 'client-key', 'tokenFile']) resolve(user, field);
    const exec = user['exec'];
    // A command with a directory part is relative to the kubeconfig, a bare one is looked up in PATH.
    if (typeof exec === 'object' && exec !== null && 'command' in exec && typeof exec.command === 'string') {
      if (exec.command.includes('/')) exec.command = path.resolve(directory, exec.command);
    }
  }
  return config;
}

async function credentials(
  user: Record<string, unknown>,
  config: Kubeconfig,
  context: string,
): Promise<Partial<ConnectionOptions>> {
  if (user['exec'] !== undefined || user['auth-provider'] !== undefined) {
    return pluginCredentials(config, context);
  }
  const tokenFile = text(user, 'tokenFile');
  const token = text(user, 'token');
  return {
    cert: await pem(user, 'client-certificate'),
    key: await pem(user, 'client-key'),
    token,
    ...(tokenFile === undefined || token !== undefined
      ? {}
      : { authorization: cached(async () => `Bearer ${(await readText(tokenFile)).trim()}`) }),
  };
}

/** Exec plugins, OIDC and cloud providers: another library knows how to run and refresh them. */
async function pluginCredentials(config: Kubeconfig, context: string): Promise<Partial<ConnectionOptions>> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const loaded = new KubeConfig();
  loaded.loadFromString(
    stringify({ apiVersion: 'v1', kind: 'Config', ...config, 'current-context': context }),
  );
  const ask = async (): Promise<{ headers?: unknown; cert?: unknown; key?: unknown }> => {
    const options: { headers?: unknown; cert?: unknown; key?: unknown } = {};
    await loaded.applyToHTTPSOptions(options as Parameters<typeof loaded.applyToHTTPSOptions>[0]);
    return options;
  };
  const first = await ask();
  const cert = pemText(first.cert);
  const key = pemText(first.key);
  return {
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
    authorization: cached(async () => authorizationOf((await ask()).headers)),
  };
}

function authorizationOf(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null || !('Authorization' in headers)) return undefined;
  return typeof headers.Authorization === 'string' ? headers.Authorization : undefined;
}

/** One answer serves all who ask within `credentialsMs`; a failure serves only those who wait for it. */
function cached(ask: () => Promise<string | undefined>): () => Promise<string | undefined> {
  let answer: Promise<string | undefined> | undefined;
  let until = 0;
  return () => {
    if (answer === undefined || performance.now() > until) {
      until = performance.now() + credentialsMs;
      const asked = ask();
      answer = asked;
      asked.catch(() => {
        if (answer === asked) answer = undefined;
      });
    }
    return answer;
  };
}

/** `<field>-data` (base64) or the file that `<field>` names. */
async function pem(content: Record<string, unknown>, field: string): Promise<string | undefined> {
  const data = text(content, `${field}-data`);
  if (data) return Buffer.from(data, 'base64').toString();
  const file = text(content, field);
  return file ? readText(file) : undefined;
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new KubeconfigError('KubeconfigNotFound', `cannot read ${file}, which the kubeconfig names`, {
      cause: error,
    });
  }
}

function pemText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  return Buffer.isBuffer(value) ? value.toString() : undefined;
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : messageOf(error);
}
