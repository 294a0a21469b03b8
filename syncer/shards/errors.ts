/** This replica has not kept its Lease: others may serve its tenants by now, and until that is known it writes nothing. */
export class LeaseLapsed extends Error {
  override readonly name = 'LeaseLapsed';
  readonly code = 'LeaseLapsed';
  readonly retryable = true;

  constructor() {
    super('the Lease of this replica was not renewed in time; nothing is written until it is');
  }
}

/** Another process has taken over the name of this replica. */
export class ReplicaReplaced extends Error {
  override readonly name = 'ReplicaReplaced';
  readonly code = 'ReplicaReplaced';
  readonly retryable = false;
  readonly replica: string;
  readonly holder: string;

  constructor(replica: string, holder: string) {
    super(
      `another vc-syncer has started as replica "${replica}" (${holder}), so this one stops; give each that runs at the same time a --replica of its own`,
    );
    this.replica = replica;
    this.holder = holder;
  }
}
