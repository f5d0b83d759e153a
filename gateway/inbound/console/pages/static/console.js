// The console without this script decides all the same. With it: keys, news, and how long a page was looked at.
"use strict";

(() => {
  const page = document.body.dataset.page;
  const items = () => [...document.querySelectorAll("[data-item]")].filter((one) => !one.closest("details:not([open])") || one.matches("details"));
  let here = -1;

  const show = (index) => {
    const all = items();
    if (!all.length) return;
    here = Math.max(0, Math.min(all.length - 1, index));
    for (const one of all) one.classList.toggle("here", one === all[here]);
    const target = all[here].querySelector(".open, summary, a, button") || all[here];
    target.focus({ preventScroll: true });
    all[here].scrollIntoView({ block: "nearest" });
  };

  const answer = (key) => {
    const form = document.querySelector(`details[data-key="${key}"]`);
    if (!form) return false;
    form.open = true;
    const field = form.querySelector("textarea[required]") || form.querySelector("form button");
    field.focus();
    form.scrollIntoView({ block: "nearest" });
    return true;
  };

  const keys = document.getElementById("keys");
  const keysOpen = document.getElementById("keys-open");
  if (keysOpen) {
    keysOpen.hidden = false;
    keysOpen.addEventListener("click", () => keys.showModal());
  }

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (at.matches("input:not([type=checkbox]):not([type=radio]), textarea, select")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    switch (event.key) {
      case "j": show(here + 1); break;
      case "k": show(here - 1); break;
      case "x": {
        const box = items()[here]?.querySelector("input[type=checkbox]");
        if (!box) return;
        box.checked = !box.checked;
        break;
      }
      case "a": case "r": case "e": if (!answer(event.key)) return; break;
      case "u": location.assign("/console/"); break;
      case "/": document.getElementById("filter")?.focus(); break;
      case "?": keys.showModal(); break;
      default: return;
    }
    event.preventDefault();
  });

  // How long it was really looked at: only while it is seen and somebody is there.
  const fields = document.querySelectorAll("[data-active]");
  if (fields.length) {
    const IDLE_MS = 60000;
    let seen = 0, last = performance.now(), touched = last;
    const touch = () => { touched = performance.now(); };
    for (const kind of ["pointermove", "pointerdown", "keydown", "scroll", "wheel", "touchstart"]) document.addEventListener(kind, touch, { passive: true, capture: true });
    const count = () => {
      const now = performance.now();
      if (document.visibilityState === "visible" && now - touched < IDLE_MS) seen += now - last;
      last = now;
      for (const field of fields) field.value = (seen / 1000).toFixed(1);
    };
    setInterval(count, 500);
    document.addEventListener("visibilitychange", count);
    document.addEventListener("submit", count, true);
  }

  // Remaining time goes on.
  const lasting = (s) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) if (s >= size) return `${Math.floor(s / size)} ${unit}`;
    return `${Math.floor(s)} s`;
  };
  const ends = [...document.querySelectorAll("time[data-until]")];
  const asOf = document.querySelector(".foot time");
  const ahead = asOf ? Date.parse(asOf.dateTime) - Date.now() : 0;
  if (ends.length) setInterval(() => {
    for (const one of ends) {
      const left = (Date.parse(one.dateTime) - Date.now() - ahead) / 1000;
      one.textContent = left > 0 ? `${lasting(left)} left` : `ended ${lasting(-left)} ago`;
      one.classList.toggle("soon", left < 900);
    }
  }, 1000);

  // What is new is told in a quiet bar; no row moves under a finger.
  const news = document.getElementById("news");
  if (page === "inbox" && news && window.EventSource) {
    const known = new Set(JSON.parse(news.dataset.names));
    const bar = news.querySelector("a");
    let stream, base;
    const tell = (event) => {
      const said = JSON.parse(event.data);
      const quiet = "quiet" in news.dataset;
      base ??= said.total;
      const fresh = quiet ? said.total - base : said.names.filter((name) => !known.has(name)).length;
      const gone = quiet ? 0 : [...known].filter((name) => !said.names.includes(name)).length;
      const words = [fresh > 0 ? `${fresh} new` : "", gone > 0 && said.total < 50 ? `${gone} answered` : ""].filter(Boolean).join(", ");
      bar.hidden = !words;
      if (words && bar.textContent !== `${words}: show`) bar.textContent = `${words}: show`;
      document.title = `${fresh > 0 ? `(${fresh}) ` : ""}${document.title.replace(/^\(\d+\) /, "")}`;
    };
    const open = () => {
      stream = new EventSource(news.dataset.events);
      stream.addEventListener("inbox", tell);
      stream.addEventListener("over", () => { stream.close(); setTimeout(open, 1000); });
    };
    open();
    addEventListener("pagehide", () => stream.close());
  }

  // The way down to the answer is offered only while that is out of sight.
  const down = document.querySelector(".to-decide"), decide = document.getElementById("decide");
  if (down && decide && window.IntersectionObserver) {
    new IntersectionObserver(([one]) => down.classList.toggle("there", one.isIntersecting), { rootMargin: "0px 0px -64px 0px" }).observe(decide);
  }

  // A step that is linked to is unfolded; a form that answers never is.
  const unfold = () => { const one = /^#step-/.test(location.hash) && document.getElementById(location.hash.slice(1)); const inner = one && one.querySelector("details"); if (inner) { inner.open = true; one.scrollIntoView(); } };
  unfold();
  addEventListener("hashchange", unfold);
})();
