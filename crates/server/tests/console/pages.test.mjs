// Every page: there in light and dark, on a desk and on a phone, with JavaScript and without.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { delimiter, dirname } from 'node:path';
import { promisify } from 'node:util';
import { busy, places, torn } from './busy.mjs';
import { STORE, Server, axe, inert, rig, screenshot, until } from './rig.mjs';

const it = rig({ env: torn().env, fill: async (server) => places(await busy(server)) });

/** Pages of which documents show a picture. */
const PICTURES = ['overview', 'queue', 'item', 'documents', 'graph', 'search', 'monitor'];

/** Rules of axe that depend on colours and on width; the others were looked at on a desk. */
const LOOKS = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable'];

/** Opens every page one after another in one context, and does something with each. */
async function each({ open, filled }, options, look) {
  const first = await open('/sign-in', options);
  for (const [name, [path, words]] of Object.entries(filled)) {
    const page = await open(path, { beside: first });
    const main = page.getByRole('main');
    assert.ok((await main.innerText()).includes(words), `${path} does not say ${words}`);
    await look(page, name);
    await page.close();
  }
}

/** What lies beyond the right side of the screen, by name. */
function beyond(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const isWide = (element) => element.getBoundingClientRect().right > width + 1;
    const wide = [...document.querySelectorAll('body *')].filter(isWide);
    return wide.map((element) => `<${element.localName} class="${element.className}">`).slice(0, 9);
  });
}

it('every page is there on a desk, in light', async (visit) => {
  await each(visit, {}, async (page, name) => {
    assert.match(await page.title(), / · Windrow$/);
    if (STORE === 'embedded') await axe(page);
    await inert(page);
    assert.deepEqual(await beyond(page), []);
    if (PICTURES.includes(name)) await screenshot(page, `console-${name}`);
  });
});

it.once('every page fits a phone, in dark', async (visit) => {
  await each(visit, { look: 'dark', phone: true }, async (page, name) => {
    assert.deepEqual(await beyond(page), [], `${page.url()} is wider than the screen`);
    await axe(page, { only: LOOKS });
    if (name === 'queue') await screenshot(page, 'console-queue-phone', { whole: false });
  });
});

it('every page can be read without JavaScript', async (visit) => {
  await each(visit, { scripts: false }, async (page) => {
    for (const button of await page.locator('button:visible').all()) {
      const isSent = await button.evaluate((element) => element.type === 'submit');
      assert.ok(isSent, `${page.url()} has a button that does nothing without a script`);
    }
  });
});

it.once('the overview is there in dark, by the system or by choice', async ({ server, open }) => {
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await open('/', { look: 'dark' });
  await dark.getByText('All checks').waitFor();
  await screenshot(dark, 'console-overview-dark');
  const page = await open('/');
  assert.notEqual(await ground(page), await ground(dark));
  await page.getByLabel('Look').selectOption('dark');
  await page.locator('html[data-theme=dark]').waitFor();
  assert.equal(await ground(page), await ground(dark));
  await page.goto(`${server.url}/queue`);
  assert.equal(await ground(page), await ground(dark), 'it is remembered');
});

it('a retry works without JavaScript', async ({ server, open }) => {
  const id = await server.done('quiet', {}, 'fail', { error: 'torn' });
  const page = await open(`/queue/${id}`, { scripts: false });
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByText('The item is in line again.').waitFor();
  assert.equal((await server.get(`/queue/${id}`)).status, 'pending');
  // What cannot be undone is asked in the form itself.
  await page.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await server.get(`/queue/${id}`)).status, 'pending');
  await page.getByLabel('Cancel this item').check();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('.said').getByText('The item is cancelled').waitFor();
  assert.equal((await server.get(`/queue/${id}`)).status, 'cancelled');
});

it.once('the old addresses of the history lead to the queue', async ({ server, open }) => {
  for (const path of ['/history', '/scan-history']) {
    const page = await open(`${path}?filter=status%3Afailed`);
    assert.equal(page.url(), `${server.url}/queue?filter=status%3Afailed`);
  }
});

it('the picture of a page stands beside its chunks', async ({ open, filled }) => {
  const page = await open(filled['document-page'][0]);
  const picture = page.getByRole('img', { name: 'Page 1' });
  await until('the picture', () => picture.evaluate((img) => img.complete && img.naturalWidth > 0));
  const chunk = page.getByRole('article').first();
  const [left, right] = await Promise.all([picture.boundingBox(), chunk.boundingBox()]);
  assert.ok(left.x + left.width <= right.x, 'they stand side by side');
  // A chunk leads to its place in the text, and its place to the chunk.
  await chunk.getByRole('link').click();
  await page.locator('.place:target').waitFor();
  await screenshot(page, 'console-document-page');
});

it.once('a page that is not there says so, with a way back', async ({ open }) => {
  for (const path of ['/queue/01a1eb1f-58ae-7000-817b-37258d02b533', '/nowhere/at/all']) {
    const page = await open(path, { status: 404 });
    await axe(page);
    await page.getByRole('link', { name: 'To the overview' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
  }
});

it('a server that has nothing yet teaches how to give it something', async ({ open }) => {
  const server = await Server.start();
  try {
    const page = await open(`${server.url}/`);
    await page.getByRole('heading', { name: 'Nothing is here yet' }).waitFor();
    const lines = await page.locator('.copied code').allInnerTexts();
    assert.ok(lines.some((line) => line.startsWith('windrow add ')));
    await axe(page);
    await screenshot(page, 'console-empty');
    for (const [path, words] of Object.entries(EMPTY)) {
      await page.goto(`${server.url}${path}`);
      assert.match(await page.getByRole('main').innerText(), words);
    }
    // What it teaches works as it stands there, and is then on the page, which nobody loads again.
    await page.goto(server.url);
    await pasted(lines.find((line) => line.startsWith('curl ')));
    await page.getByRole('link', { name: 'thumbs' }).waitFor();
    await pasted(lines.find((line) => line.startsWith('windrow enqueue ')));
    const waiting = await server.get('/queue?filter=queue%3Athumbs');
    assert.equal(waiting.items.length, 2);
    await page.close();
  } finally {
    await server.close();
  }
});

/** Does what a page says to paste. */
function pasted(line) {
  const path = `${dirname(process.env.WINDROW_BIN)}${delimiter}${process.env.PATH}`;
  return promisify(execFile)('sh', ['-c', line], { env: { ...process.env, PATH: path } });
}

/** What the other pages say while there is nothing. */
const EMPTY = {
  '/queue': /Nothing matches/,
  '/workers': /windrow work --queue/,
  '/schedules': /windrow schedule put/,
  '/documents': /windrow add/,
  '/sources': /curl -X PUT .*\/sources\/papers/,
};
