/** How a command ended, for scripts. Documented in docs/cli.md; never renumbered. */
export const exitCodes = {
  ok: 0,
  failure: 1,
  /** Wrong arguments, also names that Kubernetes would refuse. */
  usage: 2,
  notFound: 3,
  timedOut: 4,
  /** The super cluster does not answer. */
  unreachable: 5,
  /** It exists already, or somebody else has it. */
  conflict: 6,
  /** The super cluster does not know us, or does not let us. */
  forbidden: 7,
  interrupted: 130,
} as const;
