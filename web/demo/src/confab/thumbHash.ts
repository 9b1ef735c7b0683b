/** ThumbHash (evanw.github.io/thumbhash): a blurred picture in about 25 bytes, as an address for `background-image`. */

const cache = new Map<string, string>();

/** Returns the address of the blurred picture; null if the hash is damaged. */
export function blurredPicture(thumbHash: string): string | null {
  const cached = cache.get(thumbHash);
  if (cached) return cached;
  try {
    const address = draw(Uint8Array.from(atob(thumbHash), (each) => each.charCodeAt(0)));
    cache.set(thumbHash, address);
    return address;
  } catch {
    return null;
  }
}

function draw(hash: Uint8Array): string {
  const header = hash[0]! | (hash[1]! << 8) | (hash[2]! << 16);
  const more = hash[3]! | (hash[4]! << 8);
  const hasAlpha = header >> 23 === 1;
  const landscape = more >> 15 === 1;
  const longSide = hasAlpha ? 5 : 7;
  const shortSide = more & 7;
  const [columns, rows] = landscape ? [longSide, shortSide] : [shortSide, longSide];
  const [nx, ny] = [Math.max(3, columns), Math.max(3, rows)];

  // Each channel is a sum of cosines: its mean, then the factors of four bits each.
  let at = (hasAlpha ? 6 : 5) * 2;
  const nibble = () => (hash[at >> 1]! >> ((at++ & 1) << 2)) & 15;
  const channel = (mean: number, scale: number, across: number, down: number) => {
    const terms: { x: number; y: number; factor: number }[] = [{ x: 0, y: 0, factor: mean }];
    for (let y = 0; y < down; y += 1) {
      for (let x = y ? 0 : 1; x * down < across * (down - y); x += 1) terms.push({ x, y, factor: (nibble() / 7.5 - 1) * scale * 2 });
    }
    return terms;
  };
  const light = channel((header & 63) / 63, ((header >> 18) & 31) / 31, nx, ny);
  const yellow = channel(((header >> 6) & 63) / 31.5 - 1, (((more >> 3) & 63) / 63) * 1.25, 3, 3);
  const red = channel(((header >> 12) & 63) / 31.5 - 1, (((more >> 9) & 63) / 63) * 1.25, 3, 3);
  const alpha = hasAlpha ? channel((hash[5]! & 15) / 15, (hash[5]! >> 4) / 15, 5, 5) : null;

  const ratio = columns / rows;
  const width = Math.round(ratio > 1 ? 32 : 32 * ratio);
  const height = Math.round(ratio > 1 ? 32 / ratio : 32);
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(width, height);
  const value = (terms: typeof light, x: number, y: number) =>
    terms.reduce((sum, term) => sum + term.factor * Math.cos((Math.PI / width) * (x + 0.5) * term.x) * Math.cos((Math.PI / height) * (y + 0.5) * term.y), 0);
  for (let y = 0, i = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, i += 4) {
      const [l, p, q] = [value(light, x, y), value(yellow, x, y), value(red, x, y)];
      const b = l - (2 / 3) * p;
      const r = (3 * l - b + q) / 2;
      image.data.set([r, r - q, b, alpha ? value(alpha, x, y) : 1].map((each) => 255 * each), i);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
