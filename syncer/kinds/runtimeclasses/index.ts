import { resources } from '../../../kube/index.ts';
import { publishedKind } from '../published/index.ts';

/**
 * RuntimeClass: a copy of each that the operator has published. Its `scheduling` stays behind: it speaks of the
 * super cluster's nodes, which adds it to S itself. In T it would only make pods that go out of date.
 */
export const runtimeClassKind = publishedKind({
  resource: resources.runtimeClasses,
  fields: ['handler', 'overhead', 'scheduling'],
  frozen: ['handler'],
  shown: ({ scheduling: _scheduling, ...rest }) => rest,
});
