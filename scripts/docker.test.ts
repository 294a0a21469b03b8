import { describe, expect, it } from 'vitest';
import { isDockerRequired } from './docker.ts';

describe('a Docker engine in a test run', () => {
  it('is asked for in CI only', () => {
    expect(isDockerRequired({})).toBe(false);
    expect(isDockerRequired({ CI: '' })).toBe(false);
    expect(isDockerRequired({ CI: 'true' })).toBe(true);
    expect(isDockerRequired({ SKERRY_REQUIRE_DOCKER: '1' })).toBe(true);
  });
});
