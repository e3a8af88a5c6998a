// Without a mouse: keys lead everywhere, and it is seen where one is.

import assert from 'node:assert/strict';
import { axe, rig } from './rig.mjs';

const it = rig();

/** What has the focus: its name, and whether that is seen. */
function focused(page) {
  return page.evaluate(() => {
    const { activeElement: element } = document;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const isSeen = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
    const name = element.getAttribute('aria-label') ?? element.textContent.trim();
    return { id: element.id, element: element.localName, name, isSeen };
  });
}

/** Goes on by Tab until something has the focus, which must be seen all the way. */
async function tabTo(page, isThere) {
  for (let step = 0; step < 60; step++) {
    await page.keyboard.press('Tab');
    const found = await focused(page);
    if (found.element !== 'body') assert.ok(found.isSeen, `nobody sees ${JSON.stringify(found)}`);
    if (isThere(found)) return found;
  }
  return assert.fail('it is not reached by Tab');
}

it.once('the first thing skips to the page', async ({ open }) => {
  const page = await open('/queue');
  const skip = await tabTo(page, () => true);
  assert.equal(skip.name, 'Skip to the page');
  await page.keyboard.press('Enter');
  assert.equal((await focused(page)).id, 'main');
  // From there on, what stands before it is skipped.
  await page.keyboard.press('Tab');
  const isInside = () => document.querySelector('main').contains(document.activeElement);
  assert.ok(await page.evaluate(isInside));
});

it.once('keys are shown, and lead to pages and filters', async ({ server, open }) => {
  await server.enqueue('keys', {});
  const page = await open('/');
  await page.keyboard.press('?');
  const keys = page.getByRole('dialog', { name: 'Keys' });
  await keys.getByText('next and previous row').waitFor();
  await axe(page);
  await page.keyboard.press('Escape');
  await keys.waitFor({ state: 'hidden' });
  const ways = { q: '/queue', d: '/documents', s: '/search', w: '/workers', o: '/' };
  for (const [key, path] of Object.entries(ways)) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.waitForURL((url) => url.pathname === path);
    await page.locator('nav.side [aria-current=page]').waitFor();
    // A field that has the focus takes the keys.
    if (path === '/search') await page.evaluate(() => document.activeElement.blur());
  }
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await page.waitForURL('**/queue');
  await page.keyboard.press('/');
  await page.keyboard.type('queue:keys p?');
  assert.equal(await page.getByLabel('Filter', { exact: true }).inputValue(), 'queue:keys p?');
  assert.equal(await page.locator('#live').getAttribute('aria-pressed'), 'true', 'it was typed');
  assert.equal(await keys.isVisible(), false);
});

it('rows are gone through, selected and opened', async ({ server, open }) => {
  const items = await server.enqueue('rows', [{ key: 'a' }, { key: 'b' }, { key: 'c' }]);
  const [third, second, first] = items.map(({ id }) => id);
  const page = await open('/queue?filter=queue%3Arows');
  const checked = () =>
    page.locator('input[name=id]:checked').evaluateAll((boxes) => boxes.map(({ value }) => value));
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  assert.deepEqual(await checked(), [first, third]);
  await page.keyboard.press('x');
  assert.deepEqual(await checked(), [first]);
  await page.keyboard.press('k');
  assert.ok((await focused(page)).isSeen);
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/queue/${second}`);
});

it('a button is reached by Tab, pressed by Enter, and asks by keys too', async (visit) => {
  const { server, open } = visit;
  const id = await server.done('tab', {}, 'fail', { error: 'torn' });
  const page = await open(`/queue/${id}`);
  await tabTo(page, ({ element, name }) => element === 'button' && name === 'Retry');
  await page.keyboard.press('Enter');
  await page.getByText('The item is in line again.').waitFor();
  const status = async () => (await server.get(`/queue/${id}`)).status;
  assert.equal(await status(), 'pending');
  const cancel = ({ element, name }) => element === 'button' && name === 'Cancel';
  await tabTo(page, cancel);
  await page.keyboard.press('Enter');
  // Whoever presses Enter once too often has said no.
  assert.equal((await focused(page)).name, 'No');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await status(), 'pending');
  assert.ok(cancel(await focused(page)), 'the focus is back where it was');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Shift+Tab');
  assert.equal((await focused(page)).name, 'Yes');
  await page.keyboard.press('Enter');
  await page.locator('.said').getByText('The item is cancelled').waitFor();
  assert.equal(await status(), 'cancelled');
});
