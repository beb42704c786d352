// What every view is made of: elements by htm, and the hooks of Preact.
import { Component, h } from "preact";
import htm from "htm";

export { Component, Fragment, render } from "preact";
export * from "preact/hooks";
export const html = htm.bind(h);

// A view that is made anew only when one of its properties is another one: for what stands in long lists.
export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      return [...Object.keys(next), ...Object.keys(this.props)].some((name) => next[name] !== this.props[name]);
    }

    render(props) {
      return h(View, props);
    }
  };
}
