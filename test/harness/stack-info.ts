/** The stack that all suites share, as global-setup.ts hands it on. Plain data: it crosses a process border. */
export interface StackInfo {
  readonly stateDir: string;
  /** Admin's, for the super cluster. */
  readonly superKubeconfig: string;
  readonly kubectl: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    stack: StackInfo;
  }
}
