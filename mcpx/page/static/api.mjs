// Talks to the daemon: questions, things to do, and the one stream of news that a page has.
//
// `get` and `post` give the JSON of the answer, and throw a `Failure` with the daemon's own words; its `answer` has
// what else was said of that, such as `code` and `problems`. `follow` calls
// a listener with each piece of news of a topic, beginning with all there is, and gives a function that ends that.
// While the page is hidden it follows nothing; when it is seen again, each topic begins anew. `connection` says how
// the stream is: "connecting", "open", "lost" (the daemon does not answer), "paused" (other windows have its
// place until somebody turns to this one) or "ended" (signed out).
//
// When the daemon is started again the page reconnects by itself, with the cookie that it has. While no daemon runs,
// a program of somebody else could answer at this address. So the page never loads anything anew unasked, and what
// answers has to prove that it is the daemon, by a key that the page was given with its first questions. Until then
// it is sent nothing.
import { useEffect, useRef, useState } from "preact/hooks";

export class Failure extends Error {
  constructor(message, answer = {}) {
    super(message);
    this.answer = answer;
  }
}

export const get = (path) => ask(path, {});
export const post = (path, body = {}, signal = undefined) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });

async function ask(path, options) {
  let response;
  try {
    if (!isProven) throw new TypeError("nobody is there yet");
    response = await fetch(`api${path}`, options);
  } catch {
    if (!followed) lost(); // else its stream says so
    throw new Failure("The daemon does not answer.");
  }
  if (response.status === 401) setConnection("ended");
  else if (!followed && connection !== "ended") setConnection("open");
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Failure(text.trim() || `The daemon answered ${response.status}.`);
  }
  const failed = answer.failed ?? (response.ok ? null : answer);
  if (failed) throw new Failure(failed.error ?? `The daemon answered ${response.status}.`, failed);
  return answer;
}

// --- the stream

const listeners = new Map(); // by topic with its argument: sets of functions
const watchers = new Set();
const PAGE = crypto.randomUUID(); // so that the daemon knows which stream a new one replaces
const RETRY_MS = 1000;
const RESUME_MS = 250; // after which a stream is opened again
const MAX_RETRY_MS = 5000;
let stream = null;
let followed = "";
let scheduled = false;
let isDue = false; // the stream is to be opened anew, even if its topics stay the same
let retry = null;
let pause = RETRY_MS; // before the daemon is asked again
let connection = "connecting";
let isProven = true; // that it is the daemon who answers: not since it was lost
const windows = new BroadcastChannel("mcpx"); // all that show this page
let daemon = { first: null, now: null }; // {id, version} of the daemon that was followed first, and of this one
const daemonWatchers = new Set();
let isLeaving = false; // while the daemon is told to end the session: the stream ends first, so its end is no fault

export function follow(topic, listener) {
  const its = listeners.get(topic) ?? new Set();
  listeners.set(topic, its.add(listener));
  beginAnew();
  return () => {
    its.delete(listener);
    if (!its.size) listeners.delete(topic);
    schedule();
  };
}

// Has each topic begin anew with all there is: for a listener that has joined, and for one whose topic has failed.
// A view that is left and opened again between two frames leaves the topics as they were, for Preact ends the old
// listener and adds the new one at once; what the stream still has to say means nothing to the new one.
export function beginAnew() {
  isDue = true;
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  queueMicrotask(() => {
    scheduled = false;
    if (isDue || wanted() !== followed) open(wanted());
  });
}

function wanted() {
  if (document.hidden || isLeaving || !isProven || connection === "ended") return "";
  return [...listeners.keys()].sort().map(encodeURIComponent).join("&topic=");
}

function open(topics) {
  stream?.close();
  stream = null;
  isDue = false;
  followed = topics;
  if (!topics) return;
  clearTimeout(retry);
  stream = new EventSource(`api/events?page=${PAGE}&topic=${topics}`);
  stream.onopen = () => {
    pause = RETRY_MS;
    setConnection("open");
  };
  stream.onerror = lost;
  stream.addEventListener("paused", paused);
  stream.addEventListener("daemon", (event) => answeredBy(JSON.parse(event.data)));
  const kinds = new Set([...listeners.keys()].map((topic) => topic.split(":")[0]));
  for (const kind of [...kinds, "failed"]) {
    stream.addEventListener(kind, (event) => hand(kind, JSON.parse(event.data)));
  }
}

function hand(kind, news) {
  for (const [topic, its] of [...listeners]) {
    const concerned = kind === "failed" ? topic === news.topic : topic.split(":")[0] === kind;
    if (concerned) for (const each of [...its]) each(kind === "failed" ? { failed: news.error } : news);
  }
}

function paused() {
  stream?.close();
  stream = null;
  setConnection("paused");
}

function answeredBy(now) {
  if (daemon.now?.id === now.id) return;
  daemon = { first: daemon.first ?? now, now };
  for (const each of [...daemonWatchers]) each(daemon);
}

function turnedTo() {
  if (connection !== "paused") return;
  followed = "";
  schedule();
}

function lost() {
  stream?.close();
  stream = null;
  followed = "";
  if (connection === "ended") return;
  isProven = false;
  setConnection("lost");
  probe();
}

// Asked by a request of its own, for an EventSource does not say whether it was signed out or cut off.
async function probe() {
  clearTimeout(retry);
  const nonce = crypto.randomUUID();
  const response = await fetch(`api/here?nonce=${nonce}`).catch(() => null);
  if (connection !== "ended" && response?.status === 401) setConnection("ended");
  const answers = response?.ok && (await proves(nonce, response)); // not one that leaves, or another program
  if (connection === "ended") return;
  clearTimeout(retry);
  retry = setTimeout(answers ? resume : probe, answers ? RESUME_MS : pause);
  if (!answers) pause = Math.min(pause * 1.5, MAX_RETRY_MS);
}

async function proves(nonce, response) {
  try {
    const [own, { proof }] = await Promise.all([key, response.json()]);
    return await crypto.subtle.verify("HMAC", own, bytesOf(proof), new TextEncoder().encode(nonce));
  } catch {
    return false;
  }
}

const bytesOf = (digits) => Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
const key = get("/key").then((given) =>
  crypto.subtle.importKey("raw", bytesOf(given.key), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]));
key.catch(() => {}); // then nothing is proven, and the page stays as it is

function resume() {
  isProven = true;
  if (wanted()) schedule();
  else setConnection("open");
}

function setConnection(now) {
  if (connection === now) return;
  connection = now;
  for (const each of [...watchers]) each(now);
  if (now === "open") windows.postMessage(now);
}

// A window that was signed out continues when another one of this browser was let in again.
windows.onmessage = () => {
  if (connection !== "ended") return;
  isProven = true;
  setConnection("connecting");
  schedule();
};

document.addEventListener("visibilitychange", schedule);
for (const sign of ["focus", "pointerdown", "keydown"]) addEventListener(sign, turnedTo);

// --- for views

export function useConnection() {
  const [state, setState] = useState(connection);
  useEffect(() => {
    watchers.add(setState);
    setState(connection);
    return () => watchers.delete(setState);
  }, []);
  return state;
}

// {first, now}: the daemons that were followed first and are followed now, each {id, version}.
export function useDaemon() {
  const [state, setState] = useState(daemon);
  useEffect(() => {
    daemonWatchers.add(setState);
    setState(daemon);
    return () => daemonWatchers.delete(setState);
  }, []);
  return state;
}

// The state that `reduce(state, news)` makes of a topic's news, with `newsAt`: when the last ones came. Once the
// topic has failed, `failed` says why, and what the state has is no longer current (`Outdated`).
export function useTopic(topic, reduce = (_state, news) => news) {
  const [state, setState] = useState(null);
  useEffect(() => {
    setState(null);
    return follow(topic, (news) => setState((before) => (news.failed
      ? { ...before, failed: news.failed }
      : { ...reduce(before, news), failed: undefined, newsAt: Date.now() })));
  }, [topic]);
  return state;
}

// What a question was answered with: {answer, failure, asking, again}. Asked anew when another daemon answers.
export function useAnswer(path) {
  const [state, setState] = useState({ asking: true });
  const [turn, setTurn] = useState(0);
  const id = useDaemon().now?.id;
  const answeredBy = useRef(id);
  useEffect(() => {
    if (answeredBy.current && answeredBy.current !== id) setTurn((before) => before + 1);
    answeredBy.current = id;
  }, [id]);
  useEffect(() => {
    let current = true;
    setState((before) => ({ ...before, asking: true }));
    get(path).then(
      (answer) => current && setState({ answer, asking: false }),
      (failure) => current && setState({ failure, asking: false }),
    );
    return () => void (current = false);
  }, [path, turn]);
  return { ...state, again: () => setTurn((before) => before + 1) };
}

export async function signOut() {
  isLeaving = true;
  schedule();
  try {
    await post("/sign-out");
    setConnection("ended");
  } finally {
    isLeaving = false;
    schedule();
  }
}
