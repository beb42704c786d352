// The time, for views that show how long something lasts: one timer for all, none while the page is hidden.
import { useEffect, useState } from "../lib.mjs";

const watchers = new Set();
let timer = 0;

function beat() {
  clearInterval(timer);
  timer = watchers.size && !document.hidden ? setInterval(tell, 1000) : 0;
}
function tell() {
  const now = Date.now();
  for (const each of [...watchers]) each(now);
}
document.addEventListener("visibilitychange", beat);

// Milliseconds since 1970, anew each second.
export function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    watchers.add(setNow);
    beat();
    return () => {
      watchers.delete(setNow);
      beat();
    };
  }, []);
  return now;
}
