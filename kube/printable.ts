/** Control characters, and those that change the direction or the order in which a terminal shows text. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;
const lineBreaks = /[\t\n\v\f\r]+/g;

/**
 * Text of unknown origin for people to read: one line, without what a terminal would act on, cut at `maxLength`. A copy: a
 * slice would keep the text that it was cut from.
 */
export function printable(text: string, maxLength: number): string {
  const cut = text.length > maxLength ? `${text.slice(0, maxLength)}...` : text;
  return Buffer.from(cut.replaceAll(lineBreaks, ' ').replaceAll(unprintable, '?')).toString();
}
