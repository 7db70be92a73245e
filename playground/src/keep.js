// What stays on this computer, and links that carry a kernel.

const held = new Map(); // what the browser refuses to keep, as it does for a page in another one's sandbox

/** A value under a name; null if there is none. */
export function read(name) {
  if (held.has(name)) return held.get(name);
  try {
    return JSON.parse(localStorage.getItem(`playground ${name}`));
  } catch {
    return null;
  }
}

/** Keep a value; null removes it. Returns whether the browser keeps it; else it is there until the page is closed. */
export function keep(name, value) {
  held.delete(name);
  try {
    if (value === null) localStorage.removeItem(`playground ${name}`);
    else localStorage.setItem(`playground ${name}`, JSON.stringify(value));
    return true;
  } catch {
    held.set(name, value);
    return false;
  }
}

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream));

/** A value as text for a URL's fragment. */
export async function packed(value) {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const small = new Uint8Array(await through(bytes, new CompressionStream('deflate-raw')).arrayBuffer());
  const letters = Array.from(small, byte => String.fromCharCode(byte)).join('');
  return btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** The value of such a text; throws if it is damaged. */
export async function unpacked(text) {
  const letters = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  const small = Uint8Array.from(letters, letter => letter.charCodeAt(0));
  return through(small, new DecompressionStream('deflate-raw')).json();
}

/** A short text that differs for different texts. */
export async function digest(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)));
  return Array.from(bytes.slice(0, 8), byte => byte.toString(16).padStart(2, '0')).join('');
}
