// What an item holds is shown as it is: exactly, but for what nobody is to see, and not endlessly.

import assert from 'node:assert/strict';
import { rig } from './rig.mjs';

const it = rig();

/** The most that a page may be made of, whatever is in it. */
const PAGE_MAX = 400_000;

it.once('what is secret by its name is shown nowhere', async ({ server, open }) => {
  const secret = 'swordfish';
  const payload = { password: secret, deep: [{ API_KEY: { nested: secret } }], plain: 'herring' };
  const result = { access_token: secret, ok: 'cod' };
  const item = { payload, metadata: { cookie: secret } };
  const id = await server.done('secret', item, 'complete', { result });
  const tabs = { raw: 'herring', extracted: 'cod', error: '', events: '' };
  for (const [tab, words] of Object.entries(tabs)) {
    const page = await open(`/queue/${id}?tab=${tab}`);
    const html = await page.content();
    assert.ok(html.includes(words) && !html.includes(secret), `${tab} shows the secret`);
    const redacted = await page.getByText('[redacted]').count();
    assert.equal(redacted > 0, words !== '');
  }
  for (const path of ['/queue?filter=queue%3Asecret', '/admin/queue-monitor', '/']) {
    assert.ok(!(await (await open(path)).content()).includes(secret), path);
  }
});

it('numbers are shown digit by digit', async ({ server, open }) => {
  const big = '123456789012345678901234567890';
  const digits = [big, '9007199254740993', '1.10', '0.1000000000000000055511151231257827', '1e400'];
  const body = `{"payload":[${digits.join(',')}]}`;
  const headers = { 'content-type': 'application/json' };
  const { id } = await server.call('POST', '/queues/digits/items', Buffer.from(body), { headers });
  const page = await open(`/queue/${id}?tab=raw`);
  const shown = await page.locator('pre.json').first().innerText();
  for (const number of digits) assert.ok(shown.includes(number), `${number} is not in ${shown}`);
});

it('a payload of a megabyte makes no page of a megabyte', async ({ server, open }) => {
  const { id } = await server.enqueue('large', { payload: { rows: 'x '.repeat(524_288) } });
  for (const path of [`/queue/${id}`, `/queue/${id}?tab=raw`, '/queue?filter=queue%3Alarge']) {
    const { length } = await (await open(path)).content();
    assert.ok(length < PAGE_MAX, `${path} has ${length} letters`);
  }
  // As many as are not kept beside their item.
  const inline = await server.enqueue('large', { payload: Array.from({ length: 3000 }, () => 1) });
  const claim = await server.claim('large', 2);
  const lines = Array.from({ length: 20_000 }, () => 1);
  await server.settle(claim, 'complete', { result: lines });
  const page = await open(`/queue/${inline.id}?tab=extracted`);
  assert.ok((await page.content()).length < PAGE_MAX);
  await page.getByText('are shown').waitFor();
});
