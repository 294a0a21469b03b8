export { installAddon, removeAddon } from './install.ts';
export { type AddonObject, type AddonValues, renderAddon } from './render.ts';
