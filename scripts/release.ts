import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { execa } from 'execa';
import { parseDocument } from 'yaml';

const root = join(import.meta.dirname, '..');

const help = `Usage: npm run release -- --registry REGISTRY[/PATH] [--dry-run] [--chart-only]

Builds the images of Skerry and its chart, and pushes them to a registry of containers: skerry:VERSION, skerry-manager:VERSION and
charts/skerry, which names the image there and needs no values. Needs docker and helm, logged in where the registry asks for it
("docker login", "helm registry login"). VERSION is that of package.json, and no image or chart of it may be there that differs.

  --dry-run      print what would be done
  --chart-only   not the images
`;

interface Release {
  /** Host and path, without a scheme and without a slash at its end. */
  registry: string;
  version: string;
  /** The packaged chart. */
  chart: string;
}

/** The command lines of a release, in order. */
export function releaseCommands({ registry, version, chart }: Release, chartOnly = false): string[][] {
  const build = (image: string, ...options: string[]): string[] => [
    ...[
      'docker',
      'build',
      '-f',
      'deploy/Dockerfile',
      '-t',
      `${registry}/${image}:${version}`,
      ...options,
      '.',
    ],
  ];
  const images = [
    build('skerry'),
    build('skerry-manager', '--target', 'manager'),
    ['docker', 'push', `${registry}/skerry:${version}`],
    ['docker', 'push', `${registry}/skerry-manager:${version}`],
  ];
  return [...(chartOnly ? [] : images), ['helm', 'push', chart, `oci://${registry}/charts`]];
}

/** Whether this can be a registry, as images name it. */
export function isRegistry(text: string): boolean {
  return /^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?(\/[a-z0-9][a-z0-9._-]{0,100}){0,8}$/.test(text);
}

/** Packages the chart with the image of this registry as its own; returns the path. */
export async function packageChart(
  { registry, version }: Pick<Release, 'registry' | 'version'>,
  directory: string,
  helm = 'helm',
): Promise<string> {
  const copy = join(directory, 'skerry');
  await cp(join(root, 'deploy', 'chart'), copy, { recursive: true });
  const values = join(copy, 'values.yaml');
  const document = parseDocument(await readFile(values, 'utf8'));
  document.setIn(['image', 'registry'], registry);
  await writeFile(values, document.toString());
  await execa(helm, ['package', copy, '--version', version, '--app-version', version, '-d', directory]);
  return join(directory, `skerry-${version}.tgz`);
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      registry: { type: 'string' },
      'dry-run': { type: 'boolean', default: false },
      'chart-only': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const { registry } = values;
  if (values.help || registry === undefined) {
    (values.help ? process.stdout : process.stderr).write(help);
    return values.help ? 0 : 2;
  }
  if (!isRegistry(registry)) {
    process.stderr.write(
      `"${registry}" is no registry: give a host and a path, as registry.example.com/team\n`,
    );
    return 2;
  }
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  const directory = await mkdtemp(join(tmpdir(), 'skerry-release-'));
  try {
    const chart = join(directory, `skerry-${version}.tgz`);
    const commands = releaseCommands({ registry, version, chart }, values['chart-only']);
    if (values['dry-run']) {
      process.stdout.write(`${commands.map((command) => command.join(' ')).join('\n')}\n`);
      return 0;
    }
    await packageChart({ registry, version }, directory);
    for (const [program = '', ...args] of commands) {
      process.stdout.write(`> ${program} ${args.join(' ')}\n`);
      await execa(program, args, { cwd: root, stdio: 'inherit' });
    }
    process.stdout.write(
      `released: helm install skerry oci://${registry}/charts/skerry --version ${version} -n skerry-system --create-namespace\n`,
    );
    return 0;
  } catch (error) {
    const { code, shortMessage, message } = error as {
      code?: string;
      shortMessage?: string;
      message: string;
    };
    const why = code === 'ENOENT' ? 'docker and helm have to be installed' : (shortMessage ?? message);
    process.stderr.write(`the release has failed: ${why}\n`);
    return 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

if (import.meta.main) process.exitCode = await main();
