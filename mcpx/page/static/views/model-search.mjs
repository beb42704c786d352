// What a search of the client finds: the ranking of inspect(query) with its reasons, and the answer itself.
import { html, useEffect, useRef, useState } from "../lib.mjs";
import { get } from "../api.mjs";
import { Badge } from "../widgets/badge.mjs";
import { Code } from "../widgets/copy.mjs";
import { count, counted } from "../widgets/format.mjs";
import { Empty, Failed, Notice } from "../widgets/notice.mjs";
import { Search } from "../widgets/search.mjs";

const PAUSE_MS = 200; // after a key, before it is asked
const EXACT = 1000; // a score that says that the question is a name
const SHOWN = {
  whole: { tone: "good", word: "with its signature" },
  name: { tone: "busy", word: "by its name" },
};

export function Ranking({ id, isTransparent }) {
  const [query, setQuery] = useState("");
  const { answer, failure } = useSearch(id, query.trim());
  if (isTransparent) {
    return html`<${Notice} tone="off" title="There is no search here.">This client is given one server as it is.</${Notice}>`;
  }
  return html`<section class="panel stack" aria-labelledby="model-search">
    <div class="stack tight">
      <h2 id="model-search">inspect(query)</h2>
      <${Search} label="What to do, in a few words" value=${query} onInput=${setQuery} />
      <p class="muted small">As a model would ask. Nothing is started or called by it, and it is not counted.</p>
    </div>
    <div class="hidden" role="status">${answer && `${counted(answer.matching, "server")} with something that matches`}</div>
    <div class="stack">
      ${failure && html`<${Failed} failure=${failure} />`}
      ${answer && html`<${Found} answer=${answer} />`}
      ${!answer && !failure && html`<${Empty}>Ask as a model would: create an issue, read a file, what is the weather.</${Empty}>`}
    </div>
  </section>`;
}

// The answer to the latest question; an earlier one that comes late is dropped.
function useSearch(id, query) {
  const [state, setState] = useState({});
  const turn = useRef(0);
  useEffect(() => {
    const own = ++turn.current;
    if (!query) {
      setState({});
      return undefined;
    }
    const timer = setTimeout(() => {
      get(`/search?q=${encodeURIComponent(query)}&client=${encodeURIComponent(id)}`).then(
        (answer) => own === turn.current && setState({ answer }),
        (failure) => own === turn.current && setState({ failure }),
      );
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [id, query]);
  return state;
}

function Found({ answer }) {
  const scores = answer.servers.flatMap((each) => each.hits.map((hit) => hit.score)).filter((score) => score < EXACT);
  const top = Math.max(...scores, 0.01);
  return html`<div class="halves">
    <div class="stack tight">
      <h3>Ranking: ${counted(answer.matching, "server")} with something that matches</h3>
      ${answer.servers.length
        ? html`<ol class="stack tight">${answer.servers.map((each) => html`<${Server} key=${each.server} server=${each} top=${top} />`)}</ol>`
        : html`<${Empty}>Nothing matches.</${Empty}>`}
    </div>
    <div class="stack tight beside">
      <div class="spread">
        <h3>The answer that the model reads</h3>
        <span class="muted small number">${counted(answer.answer.chars, "character")} · ${counted(answer.answer.tokens, "token")}</span>
      </div>
      <${Code} text=${answer.answer.text} what="the answer" wraps />
    </div>
  </div>`;
}

function Server({ server, top }) {
  const more = server.total - server.hits.length;
  return html`<li class="sunk stack tight">
    <div class="spread">
      <a class="strong wrap" href=${`#/servers/${encodeURIComponent(server.server)}`}>${server.server}</a>
      <span class="muted small number">${scored(server.score)}</span>
    </div>
    <ol class="stack tight">${server.hits.map((hit) => html`<${Hit} key=${hit.kind + hit.name} hit=${hit} top=${top} />`)}</ol>
    ${more > 0 && html`<p class="muted small">${counted(more, "more match", "more matches")}</p>`}
  </li>`;
}

function Hit({ hit, top }) {
  const { tone, word } = SHOWN[hit.shown] ?? { tone: "off", word: "not in the answer" };
  return html`<li class="stack hit">
    <div class="spread">
      <span class="mono wrap strong">${hit.kind === "tool" ? "" : `${hit.kind} `}${hit.name}</span>
      <span class="row small"><span class="muted number">${scored(hit.score)}</span><${Badge} tone=${tone}>${word}</${Badge}></span>
    </div>
    <div class="bar" aria-hidden="true"><span style=${{ width: `${Math.min(100, (hit.score / top) * 100)}%` }}></span></div>
    ${hit.text && html`<p class="muted small clamp">${hit.text}</p>`}
    <ul class="row why" aria-label="Why">
      ${hit.why.map((each) => html`<li key=${each.word} class="small">
        <span class="strong">${each.word}</span>${each.found && ` as ${each.found}`} <span class="muted">in ${each.parts.join(", ")} · ${each.score}</span>
      </li>`)}
    </ul>
  </li>`;
}

const scored = (score) => (score >= EXACT ? "its name" : `score ${count(score) === "0" ? score : score.toFixed(1)}`);
