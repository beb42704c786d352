// Dialogs: the browser's own, which keep the focus and close with Escape.
import { html, useEffect, useId, useRef } from "../lib.mjs";

// foot: buttons. onClose: called however it is closed; the parent then leaves it out.
export function Dialog({ title, onClose, foot, wide, children }) {
  const own = useRef(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    if (!own.current.open) own.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  const outside = (event) => event.target === own.current && onClose();
  // Escape: the parent leaves it out, which gives the focus back; the browser's own closing would be told of later
  const left = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${own} class=${`dialog${wide ? " wide" : ""}`} aria-labelledby=${id} onCancel=${left}
    onClose=${onClose} onClick=${outside}>
    <div class="dialog-head">
      <h2 id=${id} class="clamp" title=${typeof title === "string" ? title : undefined}>${title}</h2>
      <button type="button" class="quiet small" onClick=${onClose}>Close</button>
    </div>
    <div class="dialog-body">${children}</div>
    ${foot && html`<div class="dialog-foot">${foot}</div>`}
  </dialog>`;
}

// Asks before something is done.
export function Confirm({ title, text, yes = "Go on", danger, onYes, onNo }) {
  const foot = html`
    <button type="button" onClick=${onNo}>Cancel</button>
    <button type="button" class=${danger ? "danger" : "primary"} onClick=${onYes}>${yes}</button>
  `;
  return html`<${Dialog} title=${title} onClose=${onNo} foot=${foot}><p class="wrap">${text}</p></${Dialog}>`;
}
