// Places within a view, as links: each has an address of its own, so that Back works.
import { html } from "../lib.mjs";

// tabs: [{href, name, count}]; current: the href of the one that is shown
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(({ href, name, count }) => html`<a key=${href} href=${href}
      aria-current=${href === current ? "page" : undefined}>
      ${name}${count !== undefined && html`<span class="count">${count}</span>`}
    </a>`)}
  </nav>`;
}
