// Takes the data out of the page: base64 of raw deflate of JSON; and packed numbers apart.
import type { Packed, Page } from "./page";

/** Reads what the report's writer put into the page. */
export async function decode(base64: string): Promise<Page> {
  const packed = fromBase64(base64.trim());
  const inflated = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return (await new Response(inflated).json()) as Page;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** The values of packed numbers; NaN where there is none. */
export function unpack(packed: Packed): Float64Array {
  const values = new Float64Array(packed.deltas.length);
  let sum = 0;
  packed.deltas.forEach((delta, i) => {
    if (delta !== null) sum += delta;
    values[i] = delta === null ? Number.NaN : sum * packed.scale;
  });
  return values;
}

/** The same with null where there is none, as charts of lines want them. */
export function unpackLine(packed: Packed): (number | null)[] {
  return Array.from(unpack(packed), (value) => (Number.isNaN(value) ? null : value));
}
