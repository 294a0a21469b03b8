import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { Cache } from '../../real-node/build/programs.ts';
import { provideEngineStore } from '../images/index.ts';
import { type EngineInfo, engineAt, provideCompose, startEngine, whyNoEngine } from './engine.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Without an engine: why there is none. */
    engine: EngineInfo | { missing: string };
  }
}

const tell = (line: string): void => console.log(line);

/**
 * Starts the one Docker engine that all suites share. Where that is not possible they are skipped; with
 * SKERRY_REQUIRE_DOCKER that is a failure. SKERRY_DOCKER_ENGINE names the directory of one that is up already: it is
 * used, and left running.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env['SKERRY_DOCKER_ENGINE'];
  if (running) {
    project.provide('engine', engineAt(running));
    return async () => undefined;
  }
  const missing = whyNoEngine(process.env);
  if (missing !== undefined) {
    if (process.env['SKERRY_REQUIRE_DOCKER']) throw new Error(`no Docker engine: ${missing}`);
    project.provide('engine', { missing });
    return async () => undefined;
  }
  const cache = new Cache({ env: process.env, signal: new AbortController().signal, tell, room: 'docker' });
  const engine = await startEngine({
    directory: mkdtempSync(join(tmpdir(), 'skerry-docker-')),
    compose: await provideCompose(cache),
    store: await provideEngineStore(tell),
    tell,
  });
  const { host, env } = engine;
  project.provide('engine', { host, env });
  return () => engine.stop();
}
