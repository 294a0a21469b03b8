import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import type { ConnectionOptions } from './connection.ts';
import { KubeconfigError } from './errors.ts';
import { type Kubeconfig, parseKubeconfig, selectContext, text } from './kubeconfig.ts';

/** How long credentials of a plugin or a token file are used before they are asked for again. */
const credentialsMs = 30_000;

/**
 * The connection of a person's kubeconfig: the file given, else `$KUBECONFIG` (several files, the
 * first mention of a name wins), else `~/.kube/config`. Paths in it are relative to its file.
 * Plugins are run, through a library that is loaded only then.
 */
export async function loadKubeconfig(
  file?: string,
  context?: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ConnectionOptions> {
  const config = await readKubeconfigs(file === undefined ? defaultFiles(env) : [file], file !== undefined);
  const selected = selectContext(config, context);
  const { cluster, user } = selected;
  const server = text(cluster, 'server');
  if (!server)
    throw new KubeconfigError('InvalidKubeconfig', `the cluster of "${selected.context}" has no server`);
  for (const [content, field] of [
    [cluster, 'proxy-url'],
    [user, 'username'],
    [user, 'as'],
  ] as const) {
    if (content[field] !== undefined) {
      throw new KubeconfigError('UnsupportedField', `"${field}" in a kubeconfig is not supported`);
    }
  }
  const ca = await pem(cluster, 'certificate-authority');
  const tlsServerName = text(cluster, 'tls-server-name');
  return {
    server,
    ...(ca === undefined ? {} : { ca }),
    ...(tlsServerName === undefined ? {} : { tlsServerName }),
    ...(cluster['insecure-skip-tls-verify'] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(await credentials(user, config, selected.context)),
  };
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
      if (isMissing(error) && !mustExist) continue;
      throw new KubeconfigError('KubeconfigNotFound', `cannot read the kubeconfig ${file}`, { cause: error });
    }
    if (yaml.trim() === '') continue;
    found = true;
    const config = absolute(parseKubeconfig(yaml), path.dirname(path.resolve(file)));
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
  const cert = await pem(user, 'client-certificate');
  const key = await pem(user, 'client-key');
  const tokenFile = text(user, 'tokenFile');
  const token = text(user, 'token');
  return {
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(token === undefined ? {} : { token }),
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

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
