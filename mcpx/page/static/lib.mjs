// What every view is made of: elements by htm, and the hooks of Preact.
import { h } from "preact";
import htm from "htm";

export { Fragment, render } from "preact";
export * from "preact/hooks";
export const html = htm.bind(h);
