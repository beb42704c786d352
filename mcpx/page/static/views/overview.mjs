// The overview: what is wrong, the last hour as curves, the servers as cards, and who is connected.
import { html, useEffect, useRef, useState } from "../lib.mjs";
import { useTopic } from "../api.mjs";
import { Loading, Notice, Outdated } from "../widgets/notice.mjs";
import { Clients, Daemon } from "./overview/daemon.mjs";
import { Curves } from "./overview/curves.mjs";
import { Nodes } from "./overview/nodes.mjs";
import { Servers } from "./overview/servers.mjs";
import { Faults, isFault, remark } from "./overview/faults.mjs";

// What is known so far, of the news of the topic: members that have not changed are left out of it.
function known(before, news) {
  const cards = new Map(before?.cards);
  const heard = news.clients ? Date.now() : before?.heard;
  for (const name of news.removed ?? []) cards.delete(name);
  for (const card of news.servers ?? []) cards.set(card.name, timed(card, news.order ? null : cards.get(card.name)));
  const order = news.order ?? before?.order ?? [...cards.keys()];
  const listed = order.map((name) => cards.get(name)).filter(Boolean);
  return { ...before, ...news, cards, heard, order, listed };
}

// A card with when it was heard of, and when the server failed, if that was while somebody looked: it may be
// well again before the next look.
function timed(card, before) {
  const isNews = card.last_error !== null && card.last_error !== before?.last_error;
  const failed = before && (card.failures > before.failures || isNews);
  return { ...card, seen: Date.now(), failedAt: failed ? Date.now() : before?.failedAt };
}

export function Overview() {
  const state = useTopic("overview", known);
  const spoken = useSpoken(state?.listed);
  const ready = Boolean(state?.daemon);
  // the curves stand there from the beginning, so that one stream is opened for both topics
  return html`<div class="stack">
    ${ready ? html`<${Daemon} daemon=${state.daemon} servers=${state.listed} />` : html`<h1>Overview</h1>`}
    <div class="hidden" role="status">${spoken}</div>
    ${!state && html`<${Loading} />`}
    ${(state?.problems ?? []).map((text) => html`<${Notice} key=${text} tone="bad" live="alert">${text}</${Notice}>`)}
    <${Outdated} state=${state} />
    ${ready && html`<${Faults} servers=${state.listed} />`}
    <div hidden=${ready && !state.listed.length}><${Curves} /></div>
    ${ready && state.nodes?.length > 0 && html`<${Nodes} nodes=${state.nodes} cluster=${state.cluster} />`}
    ${ready && html`<div class="overview">
      <${Clients} clients=${state.clients ?? []} seen=${state.heard} />
      <${Servers} servers=${state.listed} />
    </div>`}
  </div>`;
}

// A sentence for screen readers when a server fails or recovers, after the first look.
function useSpoken(servers) {
  const before = useRef(null);
  const [spoken, setSpoken] = useState("");
  useEffect(() => {
    if (!servers) return;
    const faults = new Map(servers.filter(isFault).map((card) => [card.name, card]));
    const known = before.current;
    before.current = faults;
    if (!known) return;
    const failed = [...faults.values()].filter((card) => !known.has(card.name)).map(remark);
    const recovered = servers.filter((card) => known.has(card.name) && !faults.has(card.name));
    const well = recovered.map((card) => `${card.name}: ${card.state}`);
    if (failed.length || well.length) setSpoken([...failed, ...well].slice(0, 5).join(". "));
  }, [servers]);
  return spoken;
}
