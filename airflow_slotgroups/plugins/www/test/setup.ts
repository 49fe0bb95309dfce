import { cleanup } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// What jsdom lacks and Chakra asks for.
class NoObserver {
  disconnect() {}
  observe() {}
  unobserve() {}
}
Object.assign(globalThis, { IntersectionObserver: NoObserver, ResizeObserver: NoObserver });
Element.prototype.scrollIntoView = () => undefined;
Element.prototype.scrollTo = () => undefined;
Blob.prototype.text ??= function text(this: Blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.readAsText(this);
  });
};
globalThis.matchMedia ??= ((query: string) => ({
  addEventListener: () => undefined,
  addListener: () => undefined,
  matches: false,
  media: query,
  removeEventListener: () => undefined,
  removeListener: () => undefined,
})) as unknown as typeof matchMedia;

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  localStorage.clear();
});
