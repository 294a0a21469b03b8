import { mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import { create as createArchive } from 'tar';
import { defaultDriver } from '../../../api/drivers.ts';
import type { VirtualCluster } from '../../../api/virtual-cluster.ts';
import {
  type KubeClient,
  type KubeObject,
  messageOf,
  namespacedName,
  type Resource,
  resources,
} from '../../../kube/index.ts';
import { systemNamespaceOption } from '../../../program/flags.ts';
import type { ControlPlaneDriver } from '../../drivers/driver.ts';
import { ProcessDriver } from '../../drivers/process/process-driver.ts';
import { wholeNumber } from '../arguments.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { noBinaries, noteProblems, readOnlyDriver } from '../drivers.ts';
import { invalidArgument } from '../errors.ts';
import { json } from '../output.ts';
import { progressFor, withStep } from '../progress.ts';
import { stateChoice } from '../state-directory.ts';
import { withSuperCluster } from '../super-cluster.ts';
import { stackId } from '../up/stop.ts';
import { runChecks } from './doctor.ts';
import { readVersions } from './version.ts';

interface Flags extends GlobalFlags {
  file?: string;
  systemNamespace: string;
  tail: number;
}

const help = `
Puts into one file what is needed to get help: VirtualClusters, policies, templates, jobs, Leases and events of Skerry, what
runs in its namespace, versions, what "doctor" finds, and the ends of the logs of the local stack and of control planes. No Secrets
are read, and what looks like a key, a token or a password is taken out of everything else. Names of tenants, their
namespaces and addresses are in it: look before you send it.

What cannot be read is left out, and named in errors.txt.

Examples:
  vc-manager support-bundle
  vc-manager support-bundle --file /tmp/skerry.tar.gz --tail 5000`;

export function configure(command: Command, cli: Cli): void {
  command
    .option('-f, --file <file>', 'where to write it (default: skerry-support-TIME.tar.gz here)')
    .option('--tail <lines>', 'of each log', wholeNumber(0, 1_000_000), 2_000)
    .addOption(systemNamespaceOption("of Skerry's own objects"))
    .addHelpText('after', help)
    .action(async (_, chosen: Command) => supportBundle(cli, chosen.optsWithGlobals<Flags>()));
}

async function supportBundle(cli: Cli, flags: Flags): Promise<void> {
  const time = new Date(cli.clock.now()).toISOString().replaceAll(/[-:]|\.[0-9]+/g, '');
  const name = `skerry-support-${time}`;
  const file = resolve(flags.file ?? `${name}.tar.gz`);
  if ((await stat(file).catch(() => undefined))?.isDirectory() === true)
    throw invalidArgument(`${file} is a directory: name the file that is to be written`);
  const root = await mkdtemp(join(tmpdir(), 'skerry-support-'));
  const progress = progressFor(cli);
  try {
    const errors = await withStep(progress, 'Gathering what helps', (step) =>
      gather(new Bundle(join(root, name), cli, (what) => step.update(what)), cli, flags),
    );
    const partial = `${file}.partial`;
    await mkdir(dirname(file), { recursive: true });
    try {
      await createArchive({ gzip: true, portable: true, file: partial, cwd: root, mode: 0o600 }, [name]);
      await rename(partial, file);
    } finally {
      await rm(partial, { force: true });
    }
    cli.stdout.write(`${file}\n`);
    if (errors > 0) progress.note(`${errors} parts could not be read: see errors.txt in it.`);
  } finally {
    progress.close();
    await rm(root, { recursive: true, force: true });
  }
}

/** Returns how many parts could not be read. */
async function gather(bundle: Bundle, cli: Cli, flags: Flags): Promise<number> {
  await bundle.add('doctor.json', 'this machine', () =>
    runChecks(cli, stateChoice(cli.env, flags).directory),
  );
  await bundle.addLogs(
    'logs/stack',
    stackDriver(cli, flags),
    { id: stackId, name: 'the local stack' },
    flags.tail,
  );
  try {
    await withSuperCluster(cli, flags, (client) => fromSuperCluster(bundle, client, cli, flags));
  } catch (error) {
    cli.signal.throwIfAborted();
    bundle.failed('the super cluster', error);
  }
  return bundle.close();
}

/** Objects that hold no secrets by their kind. */
const everywhere: readonly [string, Resource][] = [
  ['virtualclusters.json', resources.virtualClusters],
  ['policies.json', resources.virtualClusterPolicies],
  ['templates.json', resources.controlPlaneTemplates],
  ['nodes.json', resources.nodes],
];
const inNamespace: readonly [string, Resource][] = [
  ['leases.json', resources.leases],
  ['events.json', resources.events],
  ['pods.json', resources.pods],
];

async function fromSuperCluster(bundle: Bundle, client: KubeClient, cli: Cli, flags: Flags): Promise<void> {
  const { signal } = cli;
  const { systemNamespace: namespace, tail } = flags;
  await bundle.add('versions.json', 'versions', () => readVersions(client, namespace, signal));
  for (const [file, resource] of everywhere)
    await bundle.add(file, resource.plural, async () => (await client.list(resource, { signal })).items);
  for (const [file, resource] of inNamespace)
    await bundle.add(
      `system/${file}`,
      `${resource.plural} of ${namespace}`,
      async () => (await client.list(resource, { namespace, signal })).items,
    );
  await bundle.add('virtualcluster-events.json', 'events of VirtualClusters', async () => {
    const fieldSelector = 'involvedObject.kind=VirtualCluster';
    return (await client.list(resources.events, { fieldSelector, signal })).items;
  });
  const { items: pods } = await client
    .list(resources.pods, { namespace, signal })
    .catch(() => ({ items: [] }));
  for (const { metadata } of pods as KubeObject[]) {
    const path = `/api/v1/namespaces/${namespace}/pods/${metadata.name}/log?tailLines=${tail}`;
    await bundle.addText(`system/logs/${metadata.name}.log`, `log of ${metadata.name}`, async () =>
      String(await client.raw('GET', path, { signal })),
    );
  }
  const { items } = await client.list<VirtualCluster>(resources.virtualClusters, { signal });
  const stateDir = stateChoice(cli.env, flags).directory;
  for (const { metadata, status } of items) {
    if (status?.id === undefined) continue;
    const driver = readOnlyDriver(status.driver ?? defaultDriver, {
      stateDir,
      client,
      clock: cli.clock,
      onProblem: noteProblems(cli),
    });
    const whose = { id: status.id, name: namespacedName(metadata) };
    await bundle.addLogs(`logs/${metadata.namespace}_${metadata.name}`, driver, whose, tail);
  }
}

function stackDriver(cli: Cli, flags: Flags): ControlPlaneDriver {
  return new ProcessDriver({ root: stateChoice(cli.env, flags).directory, binaries: noBinaries });
}

/** Fields of objects that hold copies of anything, or much and nothing that helps. */
const droppedAnnotations = ['kubectl.kubernetes.io/last-applied-configuration'];

/** A directory that is filled part by part; a part that cannot be read is noted. */
class Bundle {
  readonly #errors: string[] = [];
  readonly #root: string;
  readonly #cli: Cli;
  readonly #onPart: (what: string) => void;

  constructor(root: string, cli: Cli, onPart: (what: string) => void) {
    this.#root = root;
    this.#cli = cli;
    this.#onPart = onPart;
  }

  async add(file: string, what: string, read: () => Promise<unknown>): Promise<void> {
    await this.addText(file, what, async () => json(withoutSecrets(await read())));
  }

  async addText(file: string, what: string, read: () => Promise<string>): Promise<void> {
    this.#cli.signal.throwIfAborted();
    try {
      this.#onPart(what);
      const text = await read();
      const path = join(this.#root, file);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, redact(text), { mode: 0o600 });
    } catch (error) {
      this.#cli.signal.throwIfAborted();
      this.failed(what, error);
    }
  }

  /** Of all components of one control plane. */
  async addLogs(
    folder: string,
    driver: ControlPlaneDriver,
    { id, name: whose }: { id: string; name: string },
    tailLines: number,
  ): Promise<void> {
    try {
      const { components } = await driver.observe(id);
      await this.add(`${folder}/components.json`, `components of ${whose}`, async () => components);
      for (const { name } of components)
        await this.addText(`${folder}/${name}.log`, `log of ${name} of ${whose}`, async () => {
          const lines: string[] = [];
          for await (const line of driver.logs(id, name, { tailLines, signal: this.#cli.signal }))
            lines.push(`${line}\n`);
          return lines.join('');
        });
    } catch (error) {
      this.#cli.signal.throwIfAborted();
      this.failed(`logs of ${whose}`, error);
    }
  }

  failed(what: string, error: unknown): void {
    this.#errors.push(`${what}: ${messageOf(error)}\n`);
  }

  /** Returns how many parts could not be read. */
  async close(): Promise<number> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 });
    if (this.#errors.length > 0)
      await writeFile(join(this.#root, 'errors.txt'), redact(this.#errors.join('')), { mode: 0o600 });
    return this.#errors.length;
  }
}

/**
 * A copy without annotations that hold whole objects, without managedFields, and without the values of environment
 * variables and arguments, which may be passwords whatever they are called.
 */
export function withoutSecrets(value: unknown, key = ''): unknown {
  if (Array.isArray(value)) {
    // Of probes and hooks; a header may be a password as well.
    if (key === 'env' || key === 'httpHeaders')
      return value.map((each) =>
        typeof each === 'object' && each !== null && 'value' in each ? { ...each, value: redacted } : each,
      );
    if (key === 'args' || key === 'command')
      return value.map((each, index) =>
        typeof each !== 'string' || (key === 'command' && index === 0) ? each : nameOfArgument(each),
      );
    return value.map((each) => withoutSecrets(each));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(
    ([field]) => field !== 'managedFields' && !(key === 'annotations' && droppedAnnotations.includes(field)),
  );
  return Object.fromEntries(entries.map(([field, each]) => [field, withoutSecrets(each, field)]));
}

/** A flag without its value; nothing of what may be the value of the flag before it. */
function nameOfArgument(argument: string): string {
  if (!argument.startsWith('-')) return redacted;
  // `-pPASSWORD` is one argument.
  if (!argument.startsWith('--'))
    return argument.length > 2 ? `${argument.slice(0, 2)}${redacted}` : argument;
  const end = argument.indexOf('=');
  return end === -1 ? argument : `${argument.slice(0, end + 1)}${redacted}`;
}

/** What stands in place of a secret. */
export const redacted = '[redacted]';

/** Each finds what has to be kept to itself; groups, if there are any, are what may stay before it. */
const patterns: readonly RegExp[] = [
  // Keys as files and kubeconfigs have them.
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,40}PRIVATE KEY-----/g,
  // "-----BEGIN " in Base64.
  /LS0tLS1CRUdJTi[A-Za-z0-9+/=]{20,40000}/g,
  // JSON Web Tokens.
  /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,8000}/g,
  /AGE-SECRET-KEY-[A-Z0-9-]{20,4000}/g,
  /(\b[Bb]earer )[A-Za-z0-9._~+/=-]{8,8000}/g,
  // Of a URL: what stands between ":" and "@".
  /(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s:/@"']{0,200}:)[^\s/@"']{1,400}(?=@)/g,
  // Headers, with whatever scheme; and what a person has written: both may have spaces.
  /((?:authorization|cookie)\\{0,7}["']?\s{0,3}[:=]\s{0,3}(?:\[|\\{0,7}["']){0,3})[^{["'\\\n][^"'\\\n]{2,8000}/gi,
  /(pass(?:word|wd|phrase)\s{0,3}:\s{1,3})[^{["'\\\n][^"'\\\n]{2,8000}/gi,
  // JSON, JSON in a string of JSON, YAML and variables: the value of what is called like a secret.
  /((?:pass(?:word|wd|phrase)|[_.-](?:pass|pwd)|secret(?:s|_[a-z_]{1,30})?|token|(?:api|access|account|client|encryption|private|secret|session|shared|signing)[_.-]?key(?:-data)?)\\{0,7}["']?\s{0,3}[:=]\s{0,3}(?:\[(?!redacted))?)(?:(\\{1,7})(")(?:[^"\\\n]|\\+(?![\\"])|\2\\+")+|(")(?:[^"\\\n]|\\.)+|(')[^'\n]+|(?!(?:true|false|null)(?=[\s,}\]"']|$))(?!\{\s{0,3}\\{0,7}["'}])[^\s"'[][^\s"']{2,8000})/gim,
  // Arguments: a flag that is called so, and the next one.
  /(--[\w.-]{0,60}(?:pass(?:word|wd|phrase|)|secret|token|(?:api|access|account|client|encryption|private|secret|session|shared|signing)[_.-]?key)(?:[ \t]{1,3}|\\{0,7}["'],\s{0,20}))(?:(\\{1,7})(")(?:[^"\\\n]|\\+(?![\\"])|\2\\+")+|(")(?:[^"\\\n]|\\.)+|(')[^'\n]+|[^\s"'\\-][^\s"']{0,8000})/gi,
];

/** Without what looks like a key, a token or a password. Line by line or whole. */
export function redact(text: string): string {
  return patterns.reduce(
    (before, pattern) =>
      before.replaceAll(pattern, (_match: string, ...rest: unknown[]) => {
        const groups = rest.slice(
          0,
          rest.findIndex((each) => typeof each === 'number'),
        );
        return [...groups, redacted].join('');
      }),
    text,
  );
}
