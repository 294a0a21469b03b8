import { type KubeObject, resources } from '../../../kube/index.ts';
import type { SyncContext } from '../context.ts';
import type { Container, EnvVar } from './types.ts';

/**
 * Names of variables of which a container would see nothing, were they the first in its `env`: its own
 * entries replace them before anybody asks. Not among them is one whose entry may come to nothing
 * (`optional`), and one that an entry asks for as `$(NAME)` before, or while, it is set.
 */
export function replacedNames(env: readonly EnvVar[]): Set<string> {
  const asked = new Set<string>();
  const replaced = new Set<string>();
  for (const variable of env) {
    for (const [, name = ''] of (variable.value ?? '').matchAll(references)) asked.add(name);
    if (!isOptional(variable) && !asked.has(variable.name)) replaced.add(variable.name);
  }
  return replaced;
}

/**
 * Every beginning of a reference counts: which of them is escaped depends on all that stands before. No longer than
 * any name that is written here: a value may be a megabyte of beginnings.
 */
const references = /\$\((?=([^)]{1,256})\))/g;

function isOptional({ valueFrom = {} }: EnvVar): boolean {
  const { configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  return [configMapKeyRef, secretKeyRef, fileKeyRef].some((source) => source?.optional === true);
}

/**
 * Names of variables that a container takes from whole ConfigMaps and Secrets, as far as those are there.
 * The container's sources are in T's names.
 */
export function sourcedNames(
  { envFrom }: Container,
  namespace: string | undefined,
  { tenantObjects }: SyncContext,
): Set<string> {
  const names = new Set<string>();
  for (const { prefix = '', configMapRef, secretRef } of envFrom ?? []) {
    const resource = configMapRef === undefined ? resources.secrets : resources.configMaps;
    const { name } = configMapRef ?? secretRef ?? {};
    if (name === undefined) continue;
    const source = tenantObjects.get<Source>(resource, { namespace, name });
    for (const key in source?.data) names.add(prefix + key);
  }
  return names;
}

/** `binaryData` of a ConfigMap becomes no variables. */
interface Source extends KubeObject {
  data?: Record<string, string>;
}
