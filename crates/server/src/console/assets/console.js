// The console's only script. Every page reads well without it; with it a page stays fresh, keys
// work, and lines can be copied.
"use strict";

const root = document.body.dataset.root;
const $ = (selector, inside = document) => inside.querySelector(selector);
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

// What needs the script shows itself; what stands in for it goes.
function ready(inside) {
  all("[data-hides]", inside).forEach((element) => {
    all("[required]", element).forEach((field) => (field.required = false));
    element.hidden = true;
  });
  all("[data-copies], [data-selects]", inside).forEach((element) => (element.hidden = false));
  reachable(inside);
}

// What is wider than its place is scrolled by keys too, if nothing in it takes the focus.
function reachable(inside) {
  all(".scrolls, main table", inside).forEach((element) => {
    const isCut = element.scrollWidth > element.clientWidth
      || element.scrollHeight > element.clientHeight;
    if (isCut && !$("a, button, input", element)) element.tabIndex = 0;
  });
}

// Live parts: what changed is made of what was, so that focus, selection and open details stay.
function become(was, now) {
  if (was.nodeType !== now.nodeType || was.nodeName !== now.nodeName
    || (was.dataset && was.dataset.key !== now.dataset.key)) {
    was.replaceWith(now);
    return;
  }
  if (was.nodeType !== Node.ELEMENT_NODE) {
    if (was.nodeValue !== now.nodeValue) was.nodeValue = now.nodeValue;
    return;
  }
  const keeps = (name) => (was.nodeName === "DETAILS" && name === "open") || name === "hidden"
    || (was === document.activeElement && name === "value") || name === "required"
    || name === "data-at" || name === "tabindex";
  for (const { name } of [...was.attributes]) {
    if (!now.hasAttribute(name) && !keeps(name)) was.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (was.getAttribute(name) !== value && !keeps(name)) was.setAttribute(name, value);
  }
  within(was, now);
}

function within(was, now) {
  const stays = new Set([...now.children].map((child) => child.dataset.key));
  const keyed = new Map();
  // What is gone goes first: what stands behind it need not be moved, which would take its focus.
  for (const child of [...was.children]) {
    if (!child.dataset.key) continue;
    if (stays.has(child.dataset.key)) keyed.set(child.dataset.key, child);
    else child.remove();
  }
  let at = was.firstChild;
  for (const next of [...now.childNodes]) {
    const known = next.dataset && next.dataset.key && keyed.get(next.dataset.key);
    if (known && known !== at) {
      was.insertBefore(known, at);
      become(known, next);
    } else if (at) {
      const following = at.nextSibling;
      const isKeyed = at.dataset && at.dataset.key;
      if (isKeyed && next.dataset && next.dataset.key && next.dataset.key !== at.dataset.key) {
        was.insertBefore(next, at);
      } else {
        become(at, next);
        at = following;
      }
    } else {
      was.appendChild(next);
    }
  }
  while (at) {
    const following = at.nextSibling;
    at.remove();
    at = following;
  }
}

function put(part, html) {
  const was = document.getElementById(part);
  if (!was) return;
  const now = was.cloneNode(false);
  now.innerHTML = html;
  within(was, now);
  ready(was);
}

// The stream: closed while nobody looks, opened again where it was.
const live = $("#live");
let stream = null;
let isPaused = sessionStorage.getItem("paused") === "yes";

function follow() {
  const page = document.body.dataset.live;
  const wanted = page !== undefined && !isPaused && !document.hidden;
  if (live) live.setAttribute("aria-pressed", String(!isPaused));
  if (wanted && !stream) {
    stream = new EventSource(`${root}live?page=${encodeURIComponent(page)}`);
    stream.addEventListener("part", (event) => {
      const { part, html } = JSON.parse(event.data);
      put(part, html);
      document.body.dataset.fresh = String(Date.now());
    });
    stream.addEventListener("open", () => connected(true));
    stream.addEventListener("error", lost);
  } else if (!wanted && stream) {
    stream.close();
    stream = null;
  }
}

// Whoever looks at a page that is not told anything any more is told so, if it lasts.
let silence = null;

function connected(is) {
  if (is) {
    clearTimeout(silence);
    silence = null;
    live?.removeAttribute("data-lost");
  } else if (silence === null) {
    silence = setTimeout(() => live?.setAttribute("data-lost", ""), 5000);
  }
}

// A stream that broke off comes back by itself. One that was refused is asked for again; whoever is
// signed out is led to where one signs in.
async function lost() {
  connected(false);
  if (!stream || stream.readyState !== EventSource.CLOSED) return;
  stream = null;
  const page = await fetch(window.location.href, { redirect: "manual" }).catch(() => null);
  if (page && page.type === "opaqueredirect") window.location.reload();
  else setTimeout(follow, 5000);
}

function pause() {
  isPaused = !isPaused;
  sessionStorage.setItem("paused", isPaused ? "yes" : "no");
  follow();
}

// Copying works over plain HTTP too.
async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

// What cannot be undone is asked first.
function ask(form) {
  const dialog = $("#sure");
  $("p", dialog).textContent = form.dataset.asks;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue !== "yes") return;
    delete form.dataset.asks;
    // What was asked is done, or refused with a reason, also if the page has other buttons by now.
    if (!form.isConnected) document.body.append(form);
    form.requestSubmit();
  };
  dialog.showModal();
}

document.addEventListener("click", async (event) => {
  const copies = event.target.closest("[data-copies]");
  if (copies) {
    await copy(copies.dataset.copies);
    copies.textContent = "Copied";
  }
  if (event.target.closest("#live")) pause();
  if (event.target.closest("#keys-open")) $("#keys").showModal();
  const selects = event.target.closest("[data-selects]");
  if (selects) all("input[name=id]").forEach((box) => (box.checked = selects.checked));
});

document.addEventListener("change", (event) => {
  if (event.target.closest("[data-submits]")) event.target.form.requestSubmit();
});

document.addEventListener("submit", (event) => {
  if (!event.target.dataset.asks) return;
  event.preventDefault();
  ask(event.target);
});

// Keys.
const ways = { o: "", q: "queue", d: "documents", s: "search", w: "workers" };
let went = 0;

function row(step) {
  const rows = all("table.rows tbody tr");
  if (!rows.length) return;
  const at = rows.findIndex((each) => each.hasAttribute("data-at"));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  rows.forEach((each) => each.toggleAttribute("data-at", each === next));
  const open = $("a.open", next) || $("a", next);
  if (open) open.focus();
}

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input:not([type=checkbox]), select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
  if (Date.now() - went < 1500 && event.key in ways) {
    went = 0;
    window.location.href = root + ways[event.key];
    return;
  }
  went = event.key === "g" ? Date.now() : 0;
  const does = {
    "?": () => $("#keys").showModal(),
    "/": () => $("[data-focus]") && $("[data-focus]").focus(),
    j: () => row(1),
    k: () => row(-1),
    x: () => {
      const box = $("tr[data-at] input[name=id]");
      if (box) box.checked = !box.checked;
    },
    p: pause,
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

document.addEventListener("toggle", (event) => reachable(event.target), true);
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", () => stream && stream.close());
if (live) live.hidden = false;
if ($("#keys-open")) $("#keys-open").hidden = false;
ready(document);
follow();
