import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import type { VirtualClusterPolicy } from '../../api/policy.ts';
import type { DatastoreName, VirtualCluster } from '../../api/virtual-cluster.ts';
import {
  ControlPlaneError,
  minorOf,
  parseTemplate,
  selectTemplate,
  type TemplateChoice,
} from '../control-plane/template.ts';
import { isHeld } from '../jobs/job-status.ts';
import { limitingPolicy } from './effective-policy.ts';
import {
  datastoreChanged,
  OperatorError,
  templateNotAllowed,
  versionDowngrade,
  versionSkipped,
  versionTooNew,
} from './errors.ts';
import type { Services } from './services.ts';

interface Wanted {
  template?: string | undefined;
  version?: string | undefined;
}

export interface VersionChoice {
  choice: TemplateChoice;
  /** The control plane runs another version and may change to that of the choice. */
  change?: { from: string; to: string };
  /** Where the spec would have it go: a template with another datastore than it has. Beside a refusal it stays. */
  elsewhere?: TemplateChoice;
  /** Why it keeps the version that it runs although the spec asks for another. */
  refusal?: { reason: string; message: string };
}

/** What a choice is made from. */
export interface VersionSources {
  templates: { list(): Iterable<ControlPlaneTemplate> };
  policies: { list(): Iterable<VirtualClusterPolicy> };
  settings: Pick<Services['settings'], 'defaultVersion'>;
  superVersion: string;
}

/**
 * The template and the exact version of a control plane, with the datastore that it has. Data goes to another one by a
 * move only.
 */
export function versionChoice(vc: VirtualCluster, sources: VersionSources): VersionChoice {
  const running = vc.status?.version;
  const has = vc.status?.datastore ?? 'shared';
  if (running !== undefined && vc.status?.move !== undefined) {
    // One thing at a time.
    return { choice: withDatastore(vc, running, has, sources) };
  }
  const found = ofSpec(vc, sources);
  if (running === undefined || datastoreOf(found.choice) === has) return found;
  const choice = withDatastore(vc, running, has, sources);
  const { change, ...kept } = found;
  const message = `It stays at ${running}: its version and its datastore cannot be changed together. Change one first.`;
  const refusal = change && { refusal: { reason: 'DatastoreChanged', message } };
  return { ...kept, ...refusal, choice, elsewhere: found.choice };
}

/**
 * The datastore that the spec asks for, whatever else it asks for, and why its version is refused, if it is; undefined when
 * that cannot be told.
 */
export function wantedDatastore(
  vc: VirtualCluster,
  sources: VersionSources,
): ({ datastore: DatastoreName } & Pick<VersionChoice, 'refusal'>) | undefined {
  try {
    const { choice, refusal } = ofSpec(vc, sources);
    return { datastore: datastoreOf(choice), ...(refusal && { refusal }) };
  } catch {
    // The step `version` reports what is wrong.
    return undefined;
  }
}

export function datastoreOf({ template }: TemplateChoice): DatastoreName {
  return template.spec.datastore ?? 'shared';
}

/**
 * The template that is named, by default the one that it was built from last; where that is gone, one of its version with
 * this datastore that the policy allows. Throws `DatastoreChanged` when there is none, and `TemplateNotAllowed` when the
 * policy allows none of them: but not during a move that has stopped the control plane, which has to come back.
 */
export function withDatastore(
  vc: VirtualCluster,
  version: string,
  datastore: DatastoreName,
  sources: VersionSources,
  named = vc.status?.template,
): TemplateChoice {
  const suitable = [...sources.templates.list()].filter(
    ({ spec }) =>
      (spec.datastore ?? 'shared') === datastore && minorOf(spec.kubernetesVersion) === minorOf(version),
  );
  if (suitable.length === 0) throw datastoreChanged(named ?? '', datastore);
  const among = { ...sources, templates: { list: () => suitable } };
  if (suitable.some(({ metadata }) => metadata.name === named))
    return select(among, { template: named, version });
  const policy = limitingPolicy(vc.metadata.namespace ?? '', sources.policies.list());
  const allowed = policy?.spec?.templates;
  if (suitable.some(({ metadata }) => allowed?.includes(metadata.name) === true))
    return select(among, { version }, allowed);
  const any = select(among, { version });
  if (allowed === undefined || (vc.status?.move?.stage ?? 'preparing') !== 'preparing') return any;
  throw templateNotAllowed(any.template.metadata.name, policy?.metadata.name ?? '', allowed);
}

/**
 * The template and the exact version that the spec leads to. One that runs keeps its version until the spec names another.
 * What is not possible is thrown for a new control plane, and is a refusal for one that runs, which goes on as it is.
 */
function ofSpec(vc: VirtualCluster, sources: VersionSources): VersionChoice {
  const running = vc.status?.version;
  if (running === undefined) {
    const choice = choose(vc, sources);
    checkSkew(choice.version, sources);
    return { choice };
  }
  const refused = (reason: string, message: string): VersionChoice => ({
    choice: asItIs(vc, running, sources),
    refusal: { reason, message },
  });
  try {
    const wanted = wish(vc, running, sources);
    if (wanted === undefined) return { choice: keep(vc, running, sources) };
    if (wanted.version === running) return { choice: wanted };
    checkStep(running, wanted.version);
    checkSkew(wanted.version, sources);
    if (isHeld(vc, 'version-change', 0)) {
      const { why } = vc.status?.jobs?.held ?? {};
      if (why !== undefined) {
        const message = `It went back to ${running}, as ${wanted.version} did not start: ${why} "vc-manager jobs retry" or a change of the spec tries again.`;
        return refused('RolledBack', message);
      }
      const message = `Its change from ${running} to ${wanted.version} was cancelled; "vc-manager jobs retry" or a change of the spec begins it anew.`;
      return refused('Cancelled', message);
    }
    return { choice: wanted, change: { from: running, to: wanted.version } };
  } catch (error) {
    if (!(error instanceof OperatorError || error instanceof ControlPlaneError)) throw error;
    return refused(error.code, `It stays at ${running}: ${error.message}`);
  }
}

/** The choice that the spec asks for; undefined if it is the version or the minor version that runs. */
function wish(vc: VirtualCluster, running: string, sources: VersionSources): TemplateChoice | undefined {
  const { version, template } = vc.spec ?? {};
  if (version !== undefined) {
    if (version === running || version === minorOf(running)) return undefined;
    return choose(vc, sources);
  }
  const named = [...sources.templates.list()].find(({ metadata }) => metadata.name === template);
  if (named === undefined || minorOf(named.spec.kubernetesVersion) === minorOf(running)) return undefined;
  return choose(vc, sources);
}

/**
 * The version that runs, of the template of the spec or, where that is for another minor version or there is none, of one
 * for the version that runs. Throws `TemplateNotAllowed` for one that it does not have yet. Only a template that the spec
 * names leads to another datastore, by a move, which looks at the policy by itself.
 */
function keep(vc: VirtualCluster, running: string, sources: VersionSources): TemplateChoice {
  const { spec, status, metadata } = vc;
  const { template } = spec ?? {};
  const named = [...sources.templates.list()].find((each) => each.metadata.name === template);
  const isOther = named !== undefined && minorOf(named.spec.kubernetesVersion) !== minorOf(running);
  if (template === undefined || isOther) return unnamed(vc, running, sources);
  const policy = limitingPolicy(metadata.namespace ?? '', sources.policies.list());
  const allowed = policy?.spec?.templates;
  const choice = select(sources, { template, version: running });
  const isNew = template !== status?.template && datastoreOf(choice) === (status?.datastore ?? 'shared');
  if (isNew && allowed?.includes(template) === false)
    throw templateNotAllowed(template, policy?.metadata.name ?? '', allowed);
  return choice;
}

/** The version that runs, of a template with the datastore that it has. Throws as `withDatastore` does. */
function unnamed(vc: VirtualCluster, running: string, sources: VersionSources): TemplateChoice {
  const has = vc.status?.datastore ?? 'shared';
  const allowed = limitingPolicy(vc.metadata.namespace ?? '', sources.policies.list())?.spec?.templates;
  const built = builtFrom(vc.status, running, sources);
  // Without a version, and under such a policy, it was not the version that has chosen the template.
  const isByVersion = vc.spec?.version !== undefined && allowed === undefined;
  if (built !== undefined && !isByVersion) return select(sources, { template: built, version: running });
  const ofVersion = select(sources, { version: running });
  if (isByVersion && datastoreOf(ofVersion) === has) return ofVersion;
  return withDatastore(vc, running, has, sources);
}

/**
 * The version that runs, of the template that it was built from last: nothing of the spec is followed that cannot be followed
 * whole. But for a template with another datastore that the spec names: `wantedMove` says that it does not go there.
 */
function asItIs(vc: VirtualCluster, running: string, sources: VersionSources): TemplateChoice {
  const template = builtFrom(vc.status, running, sources);
  if (template === undefined) return keep(vc, running, sources);
  const built = select(sources, { template, version: running });
  try {
    const kept = keep(vc, running, sources);
    return datastoreOf(kept) === datastoreOf(built) ? built : kept;
  } catch (error) {
    if (!(error instanceof OperatorError || error instanceof ControlPlaneError)) throw error;
    return built;
  }
}

/** Undefined when that is gone, or for another minor version or datastore by now. */
function builtFrom(
  status: VirtualCluster['status'],
  running: string,
  { templates }: VersionSources,
): string | undefined {
  return [...templates.list()].find(
    ({ metadata, spec }) =>
      metadata.name === status?.template &&
      minorOf(spec.kubernetesVersion) === minorOf(running) &&
      (spec.datastore ?? 'shared') === (status?.datastore ?? 'shared'),
  )?.metadata.name;
}

function choose({ spec, metadata }: VirtualCluster, sources: VersionSources): TemplateChoice {
  const wanted = { template: spec?.template, version: spec?.version };
  const ceiling = limitingPolicy(metadata.namespace ?? '', sources.policies.list());
  const policy = ceiling?.metadata.name ?? '';
  const allowed = ceiling?.spec?.templates;
  if (allowed === undefined) return select(sources, wanted);
  if (wanted.template !== undefined && !allowed.includes(wanted.template)) {
    throw templateNotAllowed(wanted.template, policy, allowed);
  }
  const [first] = wanted.template === undefined && wanted.version === undefined ? allowed : [];
  try {
    return select(sources, first === undefined ? wanted : { template: first }, allowed);
  } catch (error) {
    if (!(error instanceof ControlPlaneError) || error.code !== 'UnsupportedVersion') throw error;
    // A template for this version exists, but this namespace may not use it.
    throw templateNotAllowed(select(sources, wanted).template.metadata.name, policy, allowed);
  }
}

/** Among the templates that there are, or those of them that `allowed` names. */
function select(
  { templates, settings }: VersionSources,
  wanted: Wanted,
  allowed?: readonly string[],
): TemplateChoice {
  // Only the chosen template is validated: an invalid one must not stop tenants that use others.
  const known = [...templates.list()].filter(({ metadata }) => allowed?.includes(metadata.name) ?? true);
  const choice = selectTemplate(known, { ...wanted, defaultVersion: settings.defaultVersion });
  if (!valid.has(choice.template)) parseTemplate(choice.template, choice.template.metadata.name);
  valid.add(choice.template);
  return choice;
}

/** Objects of a store do not change: one look at each is enough. */
const valid = new WeakSet<ControlPlaneTemplate>();

/** Kubernetes supports stored data for upgrades by one minor version at a time. */
function checkStep(running: string, wanted: string): void {
  const [from, to] = [numbers(running), numbers(wanted)];
  if (to.minor < from.minor || (to.minor === from.minor && to.patch < from.patch))
    throw versionDowngrade(wanted, running);
  if (to.minor > from.minor + 1) throw versionSkipped(wanted, running, `1.${from.minor + 1}`);
}

/** Pods can be carried over to a super cluster that is one minor version older; Kubernetes promises no more. */
export function checkSkew(wanted: string, { superVersion }: Pick<Services, 'superVersion'>): void {
  const newest = numbers(superVersion).minor + 1;
  if (numbers(wanted).minor > newest) throw versionTooNew(wanted, superVersion, `1.${newest}`);
}

/** Below zero: the first is older. */
export function compareVersions(first: string, second: string): number {
  const [a, b] = [numbers(first), numbers(second)];
  return a.minor - b.minor || a.patch - b.patch;
}

function numbers(version: string): { minor: number; patch: number } {
  const [, minor = '', patch = '0'] = version.split('.');
  return { minor: Number(minor), patch: Number.parseInt(patch, 10) };
}
