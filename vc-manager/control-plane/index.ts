export { ControlPlaneError } from './errors.ts';
export { loadTemplates } from './load-templates.ts';
export { localAddress } from './local-address.ts';
export type {
  ComponentPlan,
  ControlPlanePlan,
  PlanFile,
  PlanNetwork,
  PlanProbe,
  PlanResources,
} from './plan.ts';
export { renderPlan } from './render-plan.ts';
export { minorOf, selectTemplate, type TemplateChoice } from './select-template.ts';
export { parseTemplate } from './template.ts';
export { startOrder, validatePlan } from './validate-plan.ts';
