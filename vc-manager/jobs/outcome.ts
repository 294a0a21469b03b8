/** What came of working on a VirtualCluster. */
export type Outcome =
  /** Nothing more to do, or to look at it again after a while. Ends the back-off. */
  | { kind: 'done'; againAfterMs?: number }
  /** Try again after a pause that grows with every failure; at least `retryAfterMs`. */
  | { kind: 'failed'; retryAfterMs?: number };
