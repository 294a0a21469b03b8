import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import {
  type ControlPlaneTemplate,
  type ControlPlaneTemplateSpec,
  controlPlaneTemplateSchema,
} from '../../api/control-plane-template.ts';
import { CodedError, messageOf } from '../../kube/index.ts';

type ControlPlaneErrorCode =
  | 'InvalidTemplate'
  | 'UnknownTemplate'
  | 'UnsupportedVersion'
  | 'UnknownPlaceholder'
  | 'InvalidPlan';

/** A template or plan that cannot be carried out as it is. Trying again without a change is of no use. */
export class ControlPlaneError extends CodedError<ControlPlaneErrorCode> {
  override readonly name = 'ControlPlaneError';

  constructor(code: ControlPlaneErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, false, options);
  }
}

function invalidTemplate(name: string, problems: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'InvalidTemplate',
    `control plane template ${name} is not valid: ${problems.join('; ')}. Correct the template.`,
  );
}

function unknownTemplate(name: string, known: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'UnknownTemplate',
    `there is no control plane template ${name}. Known templates: ${known.join(', ') || 'none'}.`,
  );
}

function unsupportedVersion(version: string, known: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'UnsupportedVersion',
    `Kubernetes version ${version} has no control plane template. Versions with one: ${known.join(', ') || 'none'}. ` +
      'Choose one of them, or add a ControlPlaneTemplate for this version.',
  );
}

function otherMinor(template: string, own: string, version: string): ControlPlaneError {
  return new ControlPlaneError(
    'UnsupportedVersion',
    `the control plane template ${template}, which spec.template names, is for Kubernetes ${own}, and not for ${version}. ` +
      'Name a template of that version together with it, or none.',
  );
}

export function unknownPlaceholder(component: string, where: string, placeholder: string): ControlPlaneError {
  return new ControlPlaneError(
    'UnknownPlaceholder',
    `${where} of component ${component} uses \${${placeholder}}, which nothing fills in. Correct the template.`,
  );
}

export function invalidPlan(id: string, problems: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'InvalidPlan',
    `the plan of control plane ${id} is not valid: ${problems.join('; ')}`,
  );
}

/** A template's file as it is written, before anything of it is checked. */
interface Variant {
  /** Name of the file beside it whose spec it changes. */
  base?: string;
  spec?: Spec;
  [field: string]: unknown;
}

interface Spec {
  components?: Component[];
  [field: string]: unknown;
}

interface Component {
  name: string;
  args?: Record<string, string>;
  featureGates?: Record<string, boolean | null>;
  [field: string]: unknown;
}

/**
 * One spec put over another: components are matched by their names, new ones come first as others may depend on them,
 * and of the flags and feature gates of a component only those that are named change. A gate of null is removed.
 */
function withVariant(base: Spec, over: Spec): Spec {
  const known = base.components ?? [];
  const changes = over.components ?? [];
  const added = changes.filter(({ name }) => !known.some((each) => each.name === name));
  const changed = known.map((component) => {
    const change = changes.find(({ name }) => name === component.name);
    if (change === undefined) return component;
    return {
      ...component,
      ...change,
      args: { ...component.args, ...change.args },
      ...(change.featureGates === undefined
        ? {}
        : { featureGates: withoutNulls({ ...component.featureGates, ...change.featureGates }) }),
    };
  });
  return { ...base, ...over, components: [...added, ...changed] };
}

function withoutNulls(gates: Record<string, boolean | null>): Record<string, boolean | null> {
  return Object.fromEntries(Object.entries(gates).filter(([, value]) => value !== null));
}

/** Checks an object read from a file or from the API. Throws `InvalidTemplate`. */
export function parseTemplate(object: unknown, source: string): ControlPlaneTemplate {
  const result = controlPlaneTemplateSchema.safeParse(object);
  if (result.success) return result.data;
  throw invalidTemplate(
    source,
    result.error.issues.map((issue) => `${issue.path.join('.') || 'object'}: ${issue.message}`),
  );
}

/** The templates that come with this package, or those in `directory`. Throws `InvalidTemplate`. */
export async function loadTemplates(directory = packagedTemplates()): Promise<ControlPlaneTemplate[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.yaml')).sort();
  return Promise.all(
    names.map(async (name) => {
      const template = parseTemplate(await withBase(await read(directory, name), directory, name), name);
      return { ...template, spec: await withAddons(template.spec, directory, name) };
    }),
  );
}

/** The object, with the spec of the file that it names as its base under its own. */
async function withBase(object: Variant, directory: string, name: string): Promise<unknown> {
  const { base, ...own } = object;
  if (base === undefined) return object;
  try {
    const { spec } = await read(directory, base);
    return { ...own, spec: withVariant(spec ?? {}, own.spec ?? {}) };
  } catch (error) {
    throw invalidTemplate(name, [`base: ${messageOf(error)}`]);
  }
}

async function read(directory: string, name: string): Promise<Variant> {
  return parse(await readFile(join(directory, name), 'utf8')) as Variant;
}

/** With the text of its addons in place of the paths. */
async function withAddons(
  spec: ControlPlaneTemplateSpec,
  directory: string,
  source: string,
): Promise<ControlPlaneTemplateSpec> {
  if (spec.addons === undefined) return spec;
  const addons: Record<string, string> = {};
  for (const [name, path] of Object.entries(spec.addons)) {
    try {
      addons[name] = await readFile(join(directory, path), 'utf8');
    } catch (error) {
      throw invalidTemplate(source, [`spec.addons.${name}: ${messageOf(error)}`]);
    }
  }
  return { ...spec, addons };
}

// The sources lie two folders below the package's root, the built files three.
function packagedTemplates(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const candidate = join(folder, 'tenant-apiserver-templates');
    if (existsSync(candidate) || folder === dirname(folder)) return candidate;
  }
}

export interface TemplateChoice {
  template: ControlPlaneTemplate;
  /** Exact Kubernetes version to run. */
  version: string;
}

/**
 * The template and exact version for what a VirtualCluster asks for. A version without patch
 * (`1.36`) means the template's own; one with patch runs on the template of its minor. A template
 * named outright wins, and lends its version when none is asked for. Without either, the template
 * of `defaultVersion`'s minor.
 *
 * Of several templates of one minor the one named `v<major>-<minor>` is taken, so that variants can
 * stand beside it. Throws `UnknownTemplate` or `UnsupportedVersion`.
 */
export function selectTemplate(
  templates: readonly ControlPlaneTemplate[],
  wanted: { template?: string | undefined; version?: string | undefined; defaultVersion: string },
): TemplateChoice {
  const named = wanted.template === undefined ? undefined : findNamed(templates, wanted.template);
  const version = wanted.version ?? named?.spec.kubernetesVersion ?? wanted.defaultVersion;
  if (named !== undefined && minorOf(named.spec.kubernetesVersion) !== minorOf(version))
    throw otherMinor(named.metadata.name, named.spec.kubernetesVersion, version);
  const template = named ?? findForMinor(templates, minorOf(version));
  if (template === undefined)
    throw unsupportedVersion(version, [...new Set(templates.map((t) => t.spec.kubernetesVersion))].sort());
  const own = template.spec.kubernetesVersion;
  return { template, version: /^\d+\.\d+\.\d+$/.test(version) ? version : own };
}

/** `1.36` of `1.36`, `1.36.3` or `v1.36.3`. */
export function minorOf(version: string): string {
  return version.replace(/^v/, '').split('.').slice(0, 2).join('.');
}

function findNamed(templates: readonly ControlPlaneTemplate[], name: string): ControlPlaneTemplate {
  const found = templates.find((template) => template.metadata.name === name);
  if (found !== undefined) return found;
  throw unknownTemplate(name, templates.map((template) => template.metadata.name).sort());
}

function findForMinor(
  templates: readonly ControlPlaneTemplate[],
  minor: string,
): ControlPlaneTemplate | undefined {
  const candidates = templates.filter((template) => minorOf(template.spec.kubernetesVersion) === minor);
  const plain = `v${minor.replace('.', '-')}`;
  return (
    candidates.find((template) => template.metadata.name === plain) ??
    candidates.sort((a, b) => a.metadata.name.localeCompare(b.metadata.name))[0]
  );
}

/** Whether a component of the template has this argument, and a file with this placeholder for it. */
export function isFilledIn({ template }: TemplateChoice, argument: string, placeholder: string): boolean {
  return template.spec.components.some(
    ({ args = {}, files = {} }) =>
      args[argument] !== undefined && Object.values(files).some((text) => text.includes(placeholder)),
  );
}
