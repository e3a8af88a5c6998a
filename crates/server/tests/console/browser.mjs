// Chromium, and everything that went wrong in it.
//
// A visit is what one test does: pages, opened as somebody would see them, and a list of findings.
// Whatever a page complains of, is refused, asks others for or runs by accident becomes a finding,
// and a test passes only if it has taken each of them. Playwright and axe-core are not in the
// repository: `cargo xtask console` installs them, and WINDROW_BROWSER names their directory.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { ROOT } from './server.mjs';

const TARGET = resolve(ROOT, process.env.CARGO_TARGET_DIR ?? 'target');
const PACKAGES = process.env.WINDROW_BROWSER ?? join(TARGET, 'tools/browser');
const CHROMIUM = process.env.WINDROW_CHROMIUM ?? '/usr/bin/chromium';
const SCREENSHOTS = process.env.WINDROW_SCREENSHOTS ?? join(TARGET, 'screenshots');

const DESK = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

/** What a finding may be. */
export const KINDS = {
  console: 'an error or a warning in the console of the browser',
  page: 'an exception in a script of the page',
  csp: 'something that the policy of the page (CSP) refused',
  request: 'a request that got no answer',
  answer: 'an answer with an error that nobody expected',
  outside: 'a request to another place than the server',
  dialog: 'a dialog box',
  hit: 'a hostile text that was run',
};

/** Starts Chromium; once for each file, because it takes a second. */
export async function launch() {
  const how = '`cargo xtask console` installs it';
  assert.ok(existsSync(CHROMIUM), `there is no ${CHROMIUM}: ${how}, or WINDROW_CHROMIUM names it`);
  const { chromium } = packages()('playwright-core');
  // Its sandbox does not start as root; and a container has little shared memory.
  const args = ['--no-sandbox', '--disable-dev-shm-usage'];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

export class Visit {
  #contexts = [];
  #origins = new Set();

  constructor(browser, server = null) {
    Object.assign(this, { browser, server, findings: [], pages: [] });
  }

  /**
   * Opens a path of the server, or a whole address, and waits until all of it is there.
   *
   * `look` is light or dark, `phone` makes it small, `scripts: false` turns JavaScript off, `token`
   * shows one with every request, `status` is what must be answered, and `context` more of what
   * Playwright knows of contexts. Each page has cookies of its own unless it is `beside` another.
   */
  async open(path, options = {}) {
    const { beside = null, status = 200 } = options;
    const address = new URL(path, this.server?.url);
    this.#origins.add(address.origin);
    const context = beside ? beside.context() : await this.#context(options);
    const page = await context.newPage();
    const answer = await page.goto(address.href, { waitUntil: 'load' });
    const answered = answer?.status();
    this.findings = this.findings.filter((one) => !(answered === status && one.answer === answer));
    assert.equal(answered, status, `${address.href} was answered with ${answered}`);
    return page;
  }

  async #context({ look = 'light', phone = false, scripts = true, token = null, context = {} }) {
    const headers = token ? { extraHTTPHeaders: { authorization: `Bearer ${token}` } } : {};
    const made = await this.browser.newContext({
      viewport: phone ? PHONE : DESK,
      ...(phone ? { isMobile: true, hasTouch: true, deviceScaleFactor: 2 } : {}),
      colorScheme: look,
      javaScriptEnabled: scripts,
      // The same on every machine, and nothing that moves while it is looked at.
      reducedMotion: 'reduce',
      locale: 'en-GB',
      timezoneId: 'UTC',
      ...headers,
      ...context,
    });
    this.#contexts.push(made);
    made.setDefaultTimeout(15_000);
    await made.exposeBinding('__windrow_hit', ({ frame }, number) => {
      this.#find('hit', frame.url(), `hostile text ${number} was run`, { number });
    });
    await made.addInitScript(() => {
      const report = window.__windrow_hit;
      Object.defineProperty(window, '__hit', { set: (number) => void report(String(number)) });
    });
    made.on('page', (page) => this.#watch(page));
    return made;
  }

  #watch(page) {
    this.pages.push(page);
    page.on('console', (message) => {
      const text = message.text();
      // Told in full as `request` or `answer`.
      if (text.startsWith('Failed to load resource')) return;
      const isPolicy = /content[- ]security[- ]policy/i.test(text);
      const isBad = ['error', 'warning', 'assert'].includes(message.type());
      if (isPolicy || isBad) this.#find(isPolicy ? 'csp' : 'console', page.url(), text);
    });
    page.on('pageerror', (error) => this.#find('page', page.url(), String(error?.stack ?? error)));
    page.on('dialog', async (dialog) => {
      this.#find('dialog', page.url(), `${dialog.type()}: ${dialog.message()}`);
      await dialog.dismiss();
    });
    page.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      const isFar = protocol.startsWith('http') && !this.#origins.has(origin);
      if (isFar) this.#find('outside', page.url(), `${request.method()} ${request.url()}`);
    });
    page.on('requestfailed', (request) => {
      const why = request.failure()?.errorText ?? 'no reason';
      // Left behind by a page that was left, such as a stream of events; or told as `csp`.
      if (/ERR_ABORTED|csp|ERR_BLOCKED_BY_CSP/i.test(why)) return;
      this.#find('request', page.url(), `${request.method()} ${request.url()}: ${why}`);
    });
    page.on('response', (answer) => {
      if (answer.status() < 400) return;
      const text = `${answer.request().method()} ${answer.url()}: ${answer.status()}`;
      this.#find('answer', page.url(), text, { answer });
    });
  }

  #find(kind, where, text, more = {}) {
    this.findings.push({ kind, where, text, ...more });
  }

  /** Waits until everything has been told that happened so far. */
  async told() {
    for (const page of this.pages.filter((page) => !page.isClosed())) {
      // One that is on its way elsewhere has no say.
      await page.evaluate(() => 0).catch(() => {});
    }
  }

  /** Takes the findings of a kind off the list and gives them: for what a test does on purpose. */
  async take(kind) {
    assert.ok(kind in KINDS, `${kind} is no kind of finding`);
    await this.told();
    const taken = this.findings.filter((one) => one.kind === kind);
    this.findings = this.findings.filter((one) => one.kind !== kind);
    return taken;
  }

  /** Fails if anything was found that nobody took. */
  async clean() {
    await this.told();
    const line = ({ kind, where, text }) => `  ${kind} at ${where}\n    ${text}`;
    const lines = this.findings.map(line);
    const kinds = [...new Set(this.findings.map((one) => one.kind))].map((kind) => KINDS[kind]);
    assert.ok(!lines.length, `the browser saw ${kinds.join(', and ')}:\n${lines.join('\n')}`);
  }

  async close() {
    await Promise.all(this.#contexts.map((context) => context.close()));
  }
}

/** What axe finds that hinders people is an error: `serious` and `critical`. Gives all it found. */
export async function axe(page, { without = [], within = null, only = null } = {}) {
  const source = readFileSync(packages().resolve('axe-core/axe.min.js'), 'utf8');
  // Not as an element of the page, which its policy would refuse.
  await page.evaluate(source);
  const found = await page.evaluate(
    async ({ without, within, only }) => {
      const rules = Object.fromEntries(without.map((rule) => [rule, { enabled: false }]));
      const what = within ?? document;
      const some = only ? { runOnly: only } : {};
      const options = { resultTypes: ['violations'], rules, preload: false, ...some };
      return (await window.axe.run(what, options)).violations;
    },
    { without, within, only },
  );
  const isGrave = ({ impact }) => impact === 'serious' || impact === 'critical';
  const lines = found.filter(isGrave).map(({ impact, id, help, nodes }) => {
    const places = nodes.map((node) => {
      const summary = (node.failureSummary ?? '').split('\n').slice(1).map((line) => line.trim());
      return `    ${node.target.join(' ')}\n      ${node.html}\n      ${summary.join('; ')}`;
    });
    return `  ${impact} ${id}: ${help}\n${places.join('\n')}`;
  });
  assert.ok(!lines.length, `axe finds in ${page.url()}:\n${lines.join('\n')}`);
  return found;
}

/** Does to everything on a page what people do without thinking, so that what waits for it runs. */
export async function provoke(page, { clicks = false } = {}) {
  await page.evaluate((clicks) => {
    const events = ['mouseover', 'mouseenter', 'pointerover', 'focus', 'toggle'];
    for (const element of document.querySelectorAll('*')) {
      for (const name of events) element.dispatchEvent(new Event(name, { bubbles: true }));
      const href = element.getAttribute('href') ?? element.getAttribute('xlink:href') ?? '';
      const isScript = URL.canParse(href, document.baseURI)
        ? new URL(href, document.baseURI).protocol === 'javascript:'
        : false;
      const isButton = clicks && element.matches('button');
      if (isScript || isButton) element.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    }
  }, clicks);
}

/** What of a page could run or dress it by somebody else's will, whether or not it did. */
export async function live(page) {
  return page.evaluate(() => {
    const found = [];
    const leads = ['href', 'xlink:href', 'src', 'action', 'formaction', 'data'];
    for (const element of document.querySelectorAll('*')) {
      const say = (what) => found.push(`<${element.localName}> ${what}`);
      for (const { name, value } of element.attributes) {
        if (/^on/i.test(name)) say(`has ${name}`);
        if (name === 'srcdoc') say('has srcdoc');
        const leadsTo = leads.includes(name) && URL.canParse(value, document.baseURI);
        const protocol = leadsTo ? new URL(value, document.baseURI).protocol : '';
        if (/^(javascript|data|vbscript):/.test(protocol)) say(`leads to ${protocol}`);
      }
      if (element.matches('base, meta[http-equiv=refresh i]')) say('moves the page');
      const hit = getComputedStyle(element).getPropertyValue('--hit').trim();
      if (hit) say(`is dressed by hostile text ${hit}`);
    }
    return [...new Set(found)];
  });
}

/** Fails if anything is `live` in a page. */
export async function inert(page) {
  const found = await live(page);
  assert.ok(!found.length, `${page.url()} has what it should not:\n  ${found.join('\n  ')}`);
}

/** Writes a picture of the whole page, and says where it is. */
export async function screenshot(page, name, { whole = true } = {}) {
  mkdirSync(SCREENSHOTS, { recursive: true });
  const path = join(SCREENSHOTS, `${name.replaceAll(/[^\w.-]+/g, '-').slice(0, 100)}.png`);
  await page.screenshot({ path, fullPage: whole });
  return path;
}

function packages() {
  const how = '`cargo xtask console` installs them';
  assert.ok(existsSync(PACKAGES), `there is no ${PACKAGES}: ${how}, or WINDROW_BROWSER names it`);
  return createRequire(join(PACKAGES, 'package.json'));
}
