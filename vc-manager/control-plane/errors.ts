import { CodedError } from '../../kube/index.ts';

export type ControlPlaneErrorCode =
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

export function invalidTemplate(name: string, problems: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'InvalidTemplate',
    `control plane template ${name} is not valid: ${problems.join('; ')}. Correct the template.`,
  );
}

export function unknownTemplate(name: string, known: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'UnknownTemplate',
    `there is no control plane template ${name}. Known templates: ${known.join(', ') || 'none'}.`,
  );
}

export function unsupportedVersion(version: string, known: readonly string[]): ControlPlaneError {
  return new ControlPlaneError(
    'UnsupportedVersion',
    `Kubernetes version ${version} has no control plane template. Versions with one: ${known.join(', ') || 'none'}. ` +
      'Choose one of them, or add a ControlPlaneTemplate for this version.',
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
