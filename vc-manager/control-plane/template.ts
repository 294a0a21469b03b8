import { type ControlPlaneTemplate, controlPlaneTemplateSchema } from '../../api/control-plane-template.ts';
import { invalidTemplate } from './errors.ts';

/** Checks an object read from a file or from the API. Throws `InvalidTemplate`. */
export function parseTemplate(object: unknown, source: string): ControlPlaneTemplate {
  const result = controlPlaneTemplateSchema.safeParse(object);
  if (result.success) return result.data;
  throw invalidTemplate(
    source,
    result.error.issues.map((issue) => `${issue.path.join('.') || 'object'}: ${issue.message}`),
  );
}
