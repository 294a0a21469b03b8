import type { KubeObject } from '../../../kube/index.ts';
import { compareKeys, compareLabelsAndAnnotations } from './labels-and-annotations.ts';
import { annotation, type CheckedKind, nameOf, type View } from './view.ts';

/** Whether T must have an S; `may`: both are right. */
export type Expectation = 'yes' | 'no' | 'may';

export interface DownRules {
  kind: CheckedKind;
  /** In words, for messages. */
  what: string;
  expected(own: KubeObject, view: View): Expectation;
  superName?(name: string): string;
  /** Differences of content, T first. */
  compare(own: KubeObject, superObject: KubeObject, view: View): string[];
  /** False: labels and annotations stay in the tenant. */
  keysGoDown?: boolean;
  /** Labels and annotations that each side has for itself. */
  exceptKeys?: readonly string[];
  /** Marked objects that are no S of this kind: made by the super cluster's controllers by copying labels, or Skerry's own. */
  isForeign?(superObject: KubeObject): boolean;
}

/** For one kind: each T that has to be down is there once, with its marks and its content, and nothing else is. */
export function compareDown(rules: DownRules, view: View): string[] {
  const { kind, what } = rules;
  const found: string[] = [];
  const paired = new Set<KubeObject>();
  for (const own of view.own[kind]) {
    const { namespace = '', name = '', deletionTimestamp } = own.metadata;
    const say = (text: string): void => void found.push(`${what} ${nameOf(own)}: ${text}`);
    const superObject = view.superObject(kind, namespace, rules.superName?.(name) ?? name);
    const isMarked = superObject?.metadata.labels?.['skerry.dev/tenant'] !== undefined;
    const expected = deletionTimestamp === undefined ? rules.expected(own, view) : 'may';
    if (superObject === undefined || (!isMarked && expected !== 'yes')) {
      if (expected === 'yes') say('is not in the super cluster');
      continue;
    }
    paired.add(superObject);
    if (!isMarked) {
      say('its place in the super cluster is taken by an object without marks');
      continue;
    }
    if (expected === 'no' && !rules.isForeign?.(superObject))
      say('is in the super cluster and should not be');
    if (deletionTimestamp === undefined && superObject.metadata.deletionTimestamp !== undefined) {
      say('is being deleted in the super cluster only');
    }
    for (const difference of compareLabelsAndAnnotations(view, own, superObject)) say(difference);
    if (rules.keysGoDown !== false) {
      const options = {
        except: rules.exceptKeys ?? [],
        allAnnotations: hasAllAnnotations(rules.kind),
        allLabels: hasAllLabels(rules.kind),
        noPlainKeys: rules.kind === 'configmaps' || rules.kind === 'secrets',
      };
      for (const difference of compareKeys(own, superObject, options)) say(difference);
    }
    for (const difference of rules.compare(own, superObject, view)) say(difference);
  }
  found.push(...compareOrphans(rules, view, paired));
  return found;
}

function compareOrphans({ what, kind, isForeign }: DownRules, view: View, paired: Set<KubeObject>): string[] {
  const found: string[] = [];
  const ofUid = new Map<string, KubeObject>();
  for (const superObject of view.marked(kind)) {
    if (isForeign?.(superObject)) continue;
    const uid = annotation(superObject, 'skerry.dev/uid') ?? '';
    const twin = ofUid.get(uid);
    if (twin !== undefined) {
      found.push(
        `${what} with UID ${uid} is in the super cluster twice: ${nameOf(twin)} and ${nameOf(superObject)}`,
      );
    }
    ofUid.set(uid, superObject);
    if (paired.has(superObject)) continue;
    found.push(`${what} ${nameOf(superObject)} of the super cluster has no counterpart in the tenant`);
  }
  return found;
}

/** Of these all annotations go down that are not denied (sync rule `allowed-annotations`). */
function hasAllAnnotations(kind: string): boolean {
  return kind === 'endpointslices' || kind.includes('.');
}

/** The same of labels (sync rule `allowed-labels`). */
function hasAllLabels(kind: string): boolean {
  return kind === 'pods' || kind.includes('.');
}
