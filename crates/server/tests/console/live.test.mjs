// Live pages: what happens elsewhere is on the page, and what somebody does on it stays.

import assert from 'node:assert/strict';
import { rig, until } from './rig.mjs';

const it = rig();

const list = (queue) => `/queue?filter=${encodeURIComponent(`queue:${queue}`)}`;
const rowOf = (page, id) => page.locator(`tr[data-key="${id}"]`);

/** Marks a page, so that it can be seen whether it was loaded again. */
async function marked(page) {
  await page.evaluate(() => (window.isSame = true));
  const isSame = () => page.evaluate(() => window.isSame);
  return async () => assert.equal(await isSame(), true, 'it was loaded again');
}

it('what is enqueued and settled elsewhere is on the page', async ({ server, open }) => {
  const page = await open(list('elsewhere'));
  const isSame = await marked(page);
  await page.getByText('Nothing matches.').waitFor();
  const { id } = await server.enqueue('elsewhere', { source_info: 'from elsewhere' });
  await rowOf(page, id).getByText('from elsewhere').waitFor();
  const item = await open(`/queue/${id}`, { beside: page });
  const isSameItem = await marked(item);
  const claim = await server.claim('elsewhere');
  await rowOf(page, id).getByText('processing').waitFor();
  await item.getByText('work runs').waitFor();
  await server.settle(claim, 'fail', { error: 'torn elsewhere' });
  await rowOf(page, id).getByText('torn elsewhere').waitFor();
  await item.getByRole('heading', { name: 'Why it is failed' }).waitFor();
  await item.locator('.head .badge.failed').waitFor();
  await isSame();
  await isSameItem();
});

it.once('a paused page stays as it is until it goes on', async ({ server, open }) => {
  await server.enqueue('paused', {});
  const page = await open(list('paused'));
  const other = await open(list('paused'), { beside: page });
  const live = page.locator('#live');
  const seenBy = async (those) => {
    const { id } = await server.enqueue('paused', {});
    for (const each of those) await rowOf(each, id).waitFor();
    return id;
  };
  for (const turn of [() => live.click(), () => page.keyboard.press('p')]) {
    await turn();
    await page.locator('#live[aria-pressed=false]').waitFor();
    const id = await seenBy([other]);
    assert.equal(await rowOf(page, id).count(), 0, 'it is paused');
    await turn();
    await page.locator('#live[aria-pressed=true]').waitFor();
    await rowOf(page, id).waitFor();
    await seenBy([page, other]);
  }
});

it.once('a tab that nobody looks at has no stream, and is fresh when it is back', async (visit) => {
  const { server, open } = visit;
  await server.enqueue('hidden', {});
  const other = await open(list('hidden'));
  const page = await open('/sign-in', { beside: other });
  const streams = { begun: 0, over: 0 };
  const isStream = (request) => request.url().includes('/live?');
  page.on('request', (request) => (streams.begun += isStream(request)));
  for (const over of ['requestfailed', 'requestfinished']) {
    page.on(over, (request) => (streams.over += isStream(request)));
  }
  await page.goto(`${server.url}${list('hidden')}`);
  const look = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  await until('a stream', () => streams.begun === 1);
  await look(true);
  await until('the end of the stream', () => streams.over === 1);
  const { id } = await server.enqueue('hidden', {});
  await rowOf(other, id).waitFor();
  assert.equal(await rowOf(page, id).count(), 0);
  assert.equal(streams.begun, 1, 'none is begun while nobody looks');
  await look(false);
  await rowOf(page, id).waitFor();
  assert.equal(streams.begun, 2);
});

it.once('focus, selection, open details and what is typed stay', async ({ server, open }) => {
  const items = await server.enqueue('stays', [{ key: 'a' }, { key: 'b' }, { key: 'c' }]);
  const [first, second, third] = items.map(({ id }) => id);
  const page = await open('/queue?filter=queue%3Astays%20status%3Apending');
  await page.getByText('What can be asked').click();
  await page.getByLabel(`Select ${second}`).check();
  await page.getByLabel('priority').fill('3');
  // The newest stands first: one above it goes, one comes.
  await page.getByLabel(`Select ${first}`).focus();
  await page.evaluate(() => (document.querySelector('tbody tr').isSame = true));
  const { id } = await server.enqueue('stays', { key: 'd' });
  await rowOf(page, id).waitFor();
  await server.call('POST', `/queue/${third}/cancel`);
  await rowOf(page, third).waitFor({ state: 'detached' });
  const label = await page.evaluate(() => document.activeElement.getAttribute('aria-label'));
  assert.equal(label, `Select ${first}`, 'the focus stayed');
  assert.equal(await page.getByLabel(`Select ${second}`).isChecked(), true);
  assert.equal(await page.getByLabel('priority').inputValue(), '3');
  assert.equal(await page.locator('details.help').getAttribute('open'), '');
  // A row that was reached by keys is still the one.
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  const at = page.locator('tr[data-at]');
  const reached = await at.getAttribute('data-key');
  assert.equal(reached, second);
  const newest = await server.enqueue('stays', { key: 'e' });
  await rowOf(page, newest.id).waitFor();
  assert.equal(await at.getAttribute('data-key'), reached);
});

it('what is asked is what is done, though the page changed meanwhile', async ({ server, open }) => {
  const { id } = await server.enqueue('meanwhile', {});
  const page = await open(`/queue/${id}`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Cancel this item').waitFor();
  await server.settle(await server.claim('meanwhile'));
  await page.getByRole('heading', { name: 'Why it is completed', includeHidden: true }).waitFor();
  await dialog.getByRole('button', { name: 'Yes' }).click();
  await page.getByText('Not done:').waitFor();
  assert.equal((await server.get(`/queue/${id}`)).status, 'completed');
});

it('a page catches up with a server that was started again', async ({ server, open, take }) => {
  await server.enqueue('again', {});
  const page = await open(list('again'));
  const isSame = await marked(page);
  await page.locator('body[data-fresh]').waitFor({ state: 'attached' });
  await server.stop();
  await page.locator('#live[data-lost]').waitFor();
  await server.startAgain();
  await page.locator('#live:not([data-lost])').waitFor({ timeout: 30_000 });
  const { id } = await server.enqueue('again', {});
  await rowOf(page, id).waitFor({ timeout: 30_000 });
  await isSame();
  await take('request');
});
