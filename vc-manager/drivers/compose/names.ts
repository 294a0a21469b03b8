import { startOrder } from '../../control-plane/index.ts';
import { isControlPlaneName } from '../control-plane-names.ts';
import { invalidName } from '../errors.ts';

/** Labels of what the driver makes; containers, volumes and the compose file carry the same ones. */
export const labels = {
  id: 'skerry.dev/id',
  /** On the container and the volumes of a component. */
  component: 'skerry.dev/component',
  /** Digest of what the container was made for. */
  hash: 'skerry.dev/component-hash',
  /** Names of components, separated by commas. */
  dependsOn: 'skerry.dev/depends-on',
  stopTimeoutMs: 'skerry.dev/stop-timeout-ms',
  /** On volumes: `files` or `data`. */
  volume: 'skerry.dev/volume',
  /** On the container by which volumes are filled, in place of `component`. */
  filling: 'skerry.dev/filling',
} as const;

/** Where a component finds its directories. */
export const inside = { files: '/skerry/files', data: '/skerry/data' } as const;

/**
 * Whom components run as, which is nobody in particular: the number that distroless images call nonroot. Their files and
 * data belong to it.
 */
export const containerUser = 65_532;

/** Name of the Compose project of a control plane. Throws `InvalidName`. */
export function projectOf(id: string): string {
  if (!isControlPlaneName(id)) throw invalidName('control plane', id);
  return `skerry-${id}`;
}

/** A new one for each change: a container never sees the files of the next one. */
export function filesVolume(id: string, component: string, hash: string): string {
  return `${projectOf(id)}_${component}-files-${hash.slice(0, 12)}`;
}

export function dataVolume(id: string, component: string): string {
  return `${projectOf(id)}_${component}-data`;
}

/** Components so ordered that each is stopped before those that it depends on. */
export function stopOrder<T extends { name: string; dependsOn: readonly string[] }>(
  components: readonly T[],
): { name: string; dependsOn: string[] }[] {
  return startOrder(
    components.map(({ name }) => ({
      name,
      dependsOn: components.filter((other) => other.dependsOn.includes(name)).map((other) => other.name),
    })),
  );
}
