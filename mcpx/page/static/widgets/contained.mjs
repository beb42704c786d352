// Keeps a fault within a part of the page: what cannot be shown says so, and the rest goes on.
//
// What servers, clients and files say may be odd in ways that nobody thought of. `where` says what is shown; once
// it is another one, that is tried again.
import { Component, html } from "../lib.mjs";
import { Notice } from "./notice.mjs";

export class Contained extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error, where: this.props.where });
  }

  render({ where, children }, { error, where: failed }) {
    if (!error || failed !== where) return children;
    return html`<${Notice} tone="bad" live="alert" title="This cannot be shown.">
      A fault of the page: <span class="mono break">${String(error.message).slice(0, 300)}</span>
    </${Notice}>`;
  }
}
