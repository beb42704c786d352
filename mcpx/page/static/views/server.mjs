// One server: how it is, what can be done with it, and what it offers, each in a tab with an address of its own.
import { html, useMemo } from "../lib.mjs";
import { useAnswer, useTopic } from "../api.mjs";
import { State } from "../widgets/badge.mjs";
import { useNow } from "../widgets/clock.mjs";
import { Contained } from "../widgets/contained.mjs";
import { bytes, count, duration, ms, saved, share } from "../widgets/format.mjs";
import { Figure, Figures } from "../widgets/figure.mjs";
import { Failed, Loading, Notice, Outdated } from "../widgets/notice.mjs";
import { Tabs } from "../widgets/tabs.mjs";
import { About } from "./server/about.mjs";
import { Actions } from "./server/actions.mjs";
import { place, request } from "./server/address.mjs";
import { Approvals } from "./server/approvals.mjs";
import { Entry } from "./server/entry.mjs";
import { Log } from "./server/log.mjs";
import { Prompts } from "./server/prompts.mjs";
import { Resources } from "./server/resources.mjs";
import { Timeline } from "./server/timeline.mjs";
import { Tools } from "./server/tools.mjs";

const MAX_ENTRIES = 100; // of the timeline, as the daemon keeps them

// What is known so far, of the news of the topic; `seen` is when the card came, for what goes on by itself.
function known(before, news) {
  const timeline = news.timeline ?? [...(before?.timeline ?? []), ...(news.new ?? [])].slice(-MAX_ENTRIES);
  return { ...before, ...news, timeline, seen: news.card ? Date.now() : before?.seen };
}

// rest: what the address names within the tab
export function Server({ name, tab = "tools", rest }) {
  const state = useTopic(`server:${name}`, known);
  if (!state?.card) return html`<div class="stack"><div class="head"><h1>${name}</h1></div>
    ${state ? html`<${Outdated} state=${state} />` : html`<${Loading} />`}</div>`;
  return html`<${Known} name=${name} tab=${tab} rest=${rest} state=${state} />`;
}

function Known({ name, tab, rest, state }) {
  const { card, timeline, offers: version } = state;
  const { answer, failure, again } = useAnswer(`${request(name)}?version=${version}`);
  const offers = useMemo(() => answer && { ...answer, version }, [answer]);
  return html`<div class="stack">
    <div class="stack tight">
      <${Head} name=${name} card=${card} />
      <${About} offers=${offers} card=${card} />
    </div>
    <${Outdated} state=${state} />
    <${Remarks} name=${name} card=${card} />
    <${Instances} instances=${card.instances} />
    <${Numbers} card=${card} seen=${state.seen} />
    <${Inside} ...${{ name, tab, card, timeline, version, offers, failure, again }} selected=${rest[0]} />
  </div>`;
}

function Head({ name, card }) {
  return html`<div class="spread">
    <div class="head"><a class="muted" href="#/">Servers</a><span class="muted"
      aria-hidden="true">/</span><h1>${name}</h1>
      <span role="status"><${State} card=${card} /></span></div>
    <${Actions} server=${name} card=${card} />
  </div>`;
}

function Remarks({ name, card }) {
  const words = card.described.startsWith(card.state) ? card.described.slice(card.state.length).replace(/^[:,]\s*/, "")
    : card.described;
  const tone = card.tone === "good" || card.tone === "idle" ? "busy" : card.tone;
  return html`
    ${words && html`<${Notice} tone=${tone}><span class="break">${words}</span>
      ${card.remedy && html`<p class="break">What helps: <span class="mono">${card.remedy}</span></p>`}</${Notice}>`}
    ${card.changes > 0 && html`<${Notice} tone="ask" title=${`${count(card.changes)} ${card.changes === 1
      ? "change waits" : "changes wait"} for approval.`}>
      <a href=${place(name, "approvals")}>See what is different</a></${Notice}>`}
    ${card.tone === "good" && card.last_error && html`<p
      class="small muted clamp">The last failure: ${card.last_error}</p>`}
  `;
}

function Instances({ instances }) {
  if (!instances) return null;
  return html`<section class="panel" aria-label="Projects"><ul class="stack tight">
    ${instances.map(({ project, state, pid }) => html`<li key=${project} class="break"><span
      class="mono">${project || "in no project"}</span>${` ${state}${pid ? `, pid ${pid}` : ""}`}</li>`)}
  </ul></section>`;
}

function Numbers({ card, seen }) {
  const now = useNow();
  const up = card.uptime_s === null ? null : card.uptime_s + Math.max(0, now - seen) / 1000;
  const share_ = saved(card.tokens_direct, card.tokens_spent);
  return html`<section class="panel" aria-label="Figures"><${Figures} label="Figures">
    <${Figure} label="Up" value=${duration(up)} beside=${card.pid ? `pid ${card.pid}` : card.transport} />
    <${Figure} label="Restarts" value=${count(card.restarts)} />
    <${Figure} label="Calls" value=${count(card.calls)} beside=${card.running || card.queued
      ? `${card.running} running, ${card.queued} waiting` : undefined} />
    <${Figure} label="Failed" value=${count(card.failed)} tone=${card.failed ? "bad" : undefined} />
    <${Figure} label="Refused" value=${count(card.refused)} beside="not sent" />
    <${Figure} label="p50" value=${ms(card.p50_ms)} />
    <${Figure} label="p95" value=${ms(card.p95_ms)} />
    <${Figure} label="Memory" value=${bytes(card.memory_bytes)} />
    <${Figure} label="CPU" value=${share(card.cpu_share)} />
    <${Figure} label="Saved since the start" value=${share(share_)} beside=${share_ === null ? undefined
      : `${count(card.tokens_spent)} for ${count(card.tokens_direct)}`} />
  </${Figures}></section>`;
}

function Inside({ name, tab, selected, card, timeline, version, offers, failure, again }) {
  const tabs = [
    ["tools", "Tools", offers?.tools.length],
    ["resources", "Resources", offers && offers.resources.length + offers.templates.length],
    ["prompts", "Prompts", offers?.prompts.length],
    ["log", "Log"],
    ["timeline", "Lifecycle"],
    ["approvals", "Approvals", card.changes || undefined],
    ...(card.peer ? [] : [["entry", "Entry"]]),
  ];
  const current = tabs.some(([key]) => key === tab) ? tab : "tools";
  return html`
    <${Tabs} label=${`Parts of ${name}`} current=${place(name, current)} tabs=${tabs.map(([key, title,
      its]) => ({ href: place(name, key), name: title, count: its }))} />
    ${current === "log" && html`<${Log} server=${name} />`}
    ${current === "timeline" && html`<${Timeline} entries=${timeline} />`}
    ${current === "approvals" && html`<${Approvals} server=${name} version=${`${version}-${card.changes}`} />`}
    ${current === "entry" && html`<${Entry} key=${name} server=${name} card=${card} />`}
    ${["log", "timeline", "approvals", "entry"].includes(current) ? null : failure
      ? html`<${Failed} failure=${failure} again=${again} />`
      : !offers
        ? html`<${Loading} />`
        : html`<${Contained} where=${`${current}/${selected}`}>
            <${Offered} current=${current} name=${name} offers=${offers} selected=${selected} card=${card} />
          </${Contained}>`}
  `;
}

function Offered({ current, name, offers, selected, card }) {
  if (current === "resources") return html`<${Resources} server=${name} offers=${offers} selected=${selected} />`;
  if (current === "prompts") return html`<${Prompts} server=${name} offers=${offers} selected=${selected} />`;
  return html`<${Tools} server=${name} offers=${offers} selected=${selected} card=${card} />`;
}
