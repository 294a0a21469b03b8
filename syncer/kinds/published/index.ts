export { isOffered, isOnItsWay, isPublished } from './is-published.ts';
export { type PublishedOptions, publishedKind } from './published-kind.ts';
