import type { ControlPlaneTemplate } from '../../api/control-plane-template.ts';
import { unknownTemplate, unsupportedVersion } from './errors.ts';

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
  const template = named ?? findForMinor(templates, minorOf(version));
  const own = template?.spec.kubernetesVersion;
  if (template === undefined || own === undefined || minorOf(own) !== minorOf(version)) {
    throw unsupportedVersion(version, [...new Set(templates.map((t) => t.spec.kubernetesVersion))].sort());
  }
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
