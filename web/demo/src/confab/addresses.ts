/** Addresses of files, as this browser reaches them. */

/** In development, a server knows its own machine's address only. The page was loaded from an address that works. */
export function reachableAddress(address: string): string {
  const { hostname, pathname, search } = new URL(address, location.href);
  return /^(localhost|127\.|\[::1\])/.test(hostname) ? pathname + search : address;
}
