import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The directory of this package, where `bin` lies; sources and built files are at different depths below it. */
export function packageRoot(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'bin', 'vc-manager.js')) || folder === dirname(folder)) return folder;
  }
}

export function packageVersion(): string {
  const text = readFileSync(join(packageRoot(), 'package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** The Helm chart, whose rights the local stack gives to manager and syncer too. */
export function chartDirectory(): string {
  return join(packageRoot(), 'deploy', 'chart');
}
