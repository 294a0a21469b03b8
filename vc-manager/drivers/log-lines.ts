/** Of a line of a log, in characters. A tenant has its API server log as long a line as it likes. */
export const longestLogLine = 16 * 1024;
/** Of the last lines of a log. */
export const longestTailBytes = 4 * 1024 * 1024;

/** A line that is too long without its end. */
export function cutLine(line: string): string {
  return line.length > longestLogLine ? `${line.slice(0, longestLogLine)}…` : line;
}

/** Makes lines of the pieces of a text, in time and memory that do not grow with a line that has no end. */
export class LineSplitter {
  /** One character more than a line has tells that it is to be cut. */
  #unfinished = '';

  /** In characters, of the line that has not ended: at most `longestLogLine` + 1. */
  get unfinishedLength(): number {
    return this.#unfinished.length;
  }

  /** The lines that end in it. */
  push(text: string): string[] {
    const parts = text.split('\n');
    const last = parts.pop() ?? '';
    const lines = parts.map((part) => {
      this.#add(part);
      return this.end() ?? '';
    });
    this.#add(last);
    return lines;
  }

  /** What comes after the last line break; undefined: nothing. */
  end(): string | undefined {
    const line = this.#unfinished;
    this.#unfinished = '';
    return line === '' ? undefined : cutLine(line);
  }

  #add(text: string): void {
    this.#unfinished += text.slice(0, longestLogLine + 1 - this.#unfinished.length);
  }
}

/** The last of these lines, as many as the tail of a log may have. */
export async function lastOf(lines: AsyncIterable<string>): Promise<string[]> {
  const kept: string[] = [];
  let length = 0;
  for await (const line of lines) {
    kept.push(line);
    length += line.length;
    while (length > longestTailBytes) length -= kept.shift()?.length ?? length;
  }
  return kept;
}
