/** `[#########-----------]  45 %  1.2 GB of 2.6 GB  310 MB/s  5 s left` */
import { byteText } from "./byte-text.ts";

const WIDTH = 20;

export function progressBar(done: number, size: number, elapsedMs: number): string {
  const part = size === 0 ? 1 : Math.min(1, done / size);
  const filled = Math.round(part * WIDTH);
  const bar = "#".repeat(filled) + "-".repeat(WIDTH - filled);
  const percent = String(Math.floor(part * 100)).padStart(3);
  const perSecond = elapsedMs === 0 ? 0 : (done / elapsedMs) * 1000;
  const left = perSecond === 0 ? "" : `  ${Math.ceil((size - done) / perSecond)} s left`;
  return `[${bar}] ${percent} %  ${byteText(done)} of ${byteText(size)}  ${byteText(perSecond)}/s${left}`;
}
