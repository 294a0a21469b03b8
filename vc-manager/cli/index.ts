export { runCli } from './run.ts';
export { type ComponentOptions, managerComponent, ownComponents, syncerComponent } from './up/components.ts';
export { grantOwnRights } from './up/own-rights.ts';
