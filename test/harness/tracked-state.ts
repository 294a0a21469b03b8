import { type KubeObject, resource } from '../../kube/index.ts';
import { at } from './checker/view.ts';
import type { Cluster } from './cluster.ts';
import { listed, type Question } from './until.ts';

const events = resource('', 'v1', 'events', 'Event', true);
const mostWarnings = 10;

/** What the super cluster has of a tenant's objects, and what Warning events tell the tenant: for who waited in vain. */
export async function describeTracked(
  tenant: Cluster & { readonly uid: string },
  superCluster: Cluster,
  question: Pick<Question, 'resource' | 'namespace'>,
): Promise<string> {
  const { namespace } = question;
  const selectors = [
    `skerry.dev/tenant=${tenant.uid}`,
    ...(namespace === undefined ? [] : [`skerry.dev/namespace=${namespace}`]),
  ];
  const [there, warnings] = await Promise.all([
    superCluster.client.list(question.resource, { labelSelector: selectors.join() }),
    namespace === undefined
      ? []
      : tenant.client
          .list(events, { namespace, fieldSelector: 'type=Warning' })
          .then(({ items }) => items.slice(-mostWarnings)),
  ]);
  return `in the super cluster: ${listed(there.items)}; warnings: ${warnings.map(told).join('; ') || 'none'}`;
}

function told(event: KubeObject): string {
  return `${at(event, 'involvedObject', 'name')} ${at(event, 'reason')}: ${at(event, 'message')}`;
}
