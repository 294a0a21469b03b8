import { styleText } from 'node:util';

export type Style = Parameters<typeof styleText>[0];

/** Colours for one stream: none when it is no terminal, or NO_COLOR says so. */
export function styler(stream: NodeJS.WritableStream): (style: Style, text: string) => string {
  return (style, text) => styleText(style, text, { stream });
}
