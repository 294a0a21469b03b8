import { join } from 'node:path';
import { execa } from 'execa';
import {
  type BuildRecipe,
  buildFromModule,
  defaultCacheDirectory,
  hostPlatform,
} from '../../vc-manager/binaries/index.ts';
import { Cache } from '../real-node/build/programs.ts';

const version = '4.3.1';
const stamps = 'helm.sh/helm/v4/internal/version';

const recipe: BuildRecipe = {
  module: 'helm.sh/helm/v4',
  moduleVersion: `v${version}`,
  package: 'helm.sh/helm/v4/cmd/helm',
  ldflags: `-s -w -X ${stamps}.version=v${version} -X ${stamps}.gitTreeState=clean`,
};

/** Path of the program; built from its Go module unless it was built before. */
export async function provideHelm(tell: (line: string) => void = () => {}): Promise<string> {
  const { env } = process;
  const cache = new Cache({ env, signal: new AbortController().signal, tell });
  const path = join(defaultCacheDirectory(env), 'tools', `helm-${version}`);
  return cache.ensure(path, async (directory, report) => {
    let last = 0;
    return buildFromModule('helm', recipe, {
      platform: hostPlatform(),
      directory,
      home: cache.directory,
      env,
      offline: false,
      signal: cache.signal,
      report: (_, message) => {
        if (performance.now() - last < 2_000) return;
        last = performance.now();
        report(message);
      },
    });
  });
}

export interface HelmResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Runs helm apart from what the user has of it. `home`: an empty directory. */
export async function runHelm(
  program: string,
  args: readonly string[],
  options: { home: string; kubeconfig?: string },
): Promise<HelmResult> {
  const { home, kubeconfig } = options;
  const result = await execa(program, args, {
    env: {
      HELM_CACHE_HOME: join(home, 'cache'),
      HELM_CONFIG_HOME: join(home, 'config'),
      HELM_DATA_HOME: join(home, 'data'),
      // Without it helm would look for the user's own cluster.
      KUBECONFIG: kubeconfig ?? join(home, 'none'),
    },
    reject: false,
  });
  return { exitCode: result.exitCode ?? -1, stdout: result.stdout, stderr: result.stderr };
}

/**
 * What is wrong with the result of a command that asked an API server: all that it wrote to stderr, but for remarks
 * that are not about the release, if the command was carried out.
 */
export function helmErrors({ exitCode, stderr }: HelmResult): string[] {
  const lines = stderr.split('\n').filter(Boolean);
  if (exitCode !== 0) return [`exit ${exitCode}`, ...lines];
  return lines.filter((line) => !remarks.some((remark) => remark.test(line)));
}

const remarks = [
  // client-go about itself when answers are slow, in klog's format; what an API server warns of is rest/warnings.go's.
  /^[IWE]\d{4} \S+ +\d+ (?!warnings\.go)\S+\.go:\d+\]|^Trace\[\d+\]: /,
  // helm, pkg/action: a group of the API server's is on its way out, such as that of another suite's definitions.
  /the kubernetes server has an orphaned API service|kubectl delete apiservice/,
];
