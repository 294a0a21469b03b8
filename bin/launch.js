// Plain JavaScript that old Nodes can read too: says one clear sentence instead of a syntax error.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as module from 'node:module';
import { constants, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Runs an entry point of this package under a Node that can: this one, else the one that is pinned
 * beside the sources. Published packages hold compiled JavaScript, a checkout the sources themselves.
 */
export function launch(entry) {
  const built = join(root, 'dist', `${entry}.js`);
  const source = join(root, `${entry}.ts`);
  const target = existsSync(source) ? source : built;
  const version = process.versions.node.split('.').map(Number);
  if (version[0] > 22 || (version[0] === 22 && version[1] >= 18)) {
    // What was compiled once need not be again: most of the CPU that a short command takes. A directory that
    // cannot be written to is no error.
    module.enableCompileCache?.(join(cacheDirectory(), 'compiled'));
    import(pathToFileURL(target).href).catch((error) => {
      const isPackage = error?.code === 'ERR_MODULE_NOT_FOUND' && /^Cannot find package/.test(error.message);
      console.error(
        isPackage && isCheckout()
          ? `A package that Skerry needs is not installed: run "npm ci" in ${root} first.`
          : error,
      );
      process.exit(1);
    });
    return;
  }
  const pinned = join(root, 'node_modules', 'node', 'bin', 'node');
  if (!existsSync(pinned)) {
    console.error(
      'Skerry needs Node 22.18 or newer, and this is ' +
        process.versions.node +
        ': install a current Node' +
        (isCheckout() ? `, or run "npm ci" in ${root}, which brings one along.` : '.'),
    );
    process.exit(1);
  }
  // By way of this file again, for what is compiled once.
  const child = spawn(pinned, process.argv.slice(1), { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]));
}

function isCheckout() {
  return existsSync(join(root, 'package-lock.json'));
}

function cacheDirectory() {
  const { SKERRY_CACHE, XDG_CACHE_HOME } = process.env;
  return SKERRY_CACHE || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'skerry');
}
