/** What happens in the stages of a pod's way, by the names that reports have for them. */
export const podStages: Readonly<Record<string, string>> = {
  queue: 'waits for a worker of the syncer',
  window: 'kept back: its tenant has its share of the scheduler',
  prepare: 'what it needs goes first: namespace, volumes, settings',
  create: 'created in the super cluster',
  schedule: 'the scheduler finds a node',
  bind: 'the tenant learns the node',
  tokens: 'its tokens are issued and brought down',
  start: 'the node starts it',
  status: 'the tenant learns that it is ready',
};
