export { CustomResources, type Problem } from './custom-resources.ts';
export { FollowedKinds } from './followed-kinds.ts';
