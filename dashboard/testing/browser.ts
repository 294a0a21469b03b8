import { spawnSync } from 'node:child_process';
import { type Browser, chromium } from 'playwright-core';

const program = process.env['SKERRY_CHROMIUM'] ?? '/usr/bin/chromium';

/** Why no browser can be started here; undefined when one can. Throws where there has to be one. */
export function whyNoBrowser(): string | undefined {
  const { status } = spawnSync(program, ['--version']);
  if (status === 0) return undefined;
  const why = `there is no ${program} here (Debian: apt-get install chromium; or set SKERRY_CHROMIUM)`;
  if (process.env['SKERRY_REQUIRE_BROWSER'] === '1') throw new Error(why);
  return why;
}

/** It asks nothing of the network but what its pages ask. */
const quiet = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A headless Chromium with a profile of its own, which goes with it. To be closed. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: program, args: quiet, headless: true });
}
