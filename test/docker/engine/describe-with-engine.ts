import { describe, inject } from 'vitest';
import type { EngineInfo } from './engine.ts';

/** As `describe`, for what needs the engine: without one it is skipped, with the reason in its name. */
export function describeWithEngine(name: string, body: (engine: EngineInfo) => void): void {
  const engine = inject('engine');
  if ('missing' in engine) describe.skip(`${name} (${engine.missing})`, () => body({ host: '', env: {} }));
  else describe(name, () => body(engine));
}
