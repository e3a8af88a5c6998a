// The console below a path: behind a proxy that takes it away, and on a server that knows it.

import assert from 'node:assert/strict';
import { createServer, request as ask } from 'node:http';
import { Server, rig, until } from './rig.mjs';

const it = rig();
const BASE = '/some/path';

/** A proxy that takes the path away, and knows nothing else. */
async function proxied({ port }) {
  const proxy = createServer((request, response) => {
    if (!request.url.startsWith(`${BASE}/`)) return response.writeHead(404).end();
    const { method, headers } = request;
    const path = request.url.slice(BASE.length);
    const onwards = ask({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    response.on('close', () => onwards.destroy());
    onwards.on('error', () => response.destroy());
    return request.pipe(onwards);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return proxy;
}

/** Signs in, looks around and acts, below an address; nothing lies beside it. */
async function below({ open }, server, origin) {
  const [first] = await server.enqueue('below', [{ source_info: 'the first' }]);
  await server.settle(await server.claim('below'), 'fail', { error: 'torn' });
  const page = await open(`${origin}${BASE}/queue?filter=queue%3Abelow`);
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.getByLabel('Token').fill(await server.token('admin', { name: 'Ada' }));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL(`${origin}${BASE}/queue?filter=queue%3Abelow`);
  // Live.
  const { id } = await server.enqueue('below', { source_info: 'the second' });
  await page.locator(`tr[data-key="${id}"]`).waitFor();
  // Links, from the deepest page too.
  await page.getByRole('link', { name: 'the first' }).click();
  await page.getByRole('heading', { name: 'Why it is failed' }).waitFor();
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByText('The item is in line again.').waitFor();
  assert.equal((await server.get(`/queue/${first.id}`)).status, 'pending');
  for (const name of ['Monitor', 'Documents', 'Settings', 'Overview']) {
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('main').waitFor();
  }
  assert.equal(page.url(), `${origin}${BASE}/`);
  await page.getByLabel('Look').selectOption('dark');
  await page.locator('html[data-theme=dark]').waitFor();
  const document = await server.built(await server.add('notice-board.png'));
  await page.goto(`${origin}${BASE}/documents/${document.id}/pages/1`);
  const picture = page.getByRole('img', { name: 'Page 1' });
  await until('the picture', () => picture.evaluate((img) => img.complete && img.naturalWidth > 0));
  await page.keyboard.press('g');
  await page.keyboard.press('q');
  await page.waitForURL(`${origin}${BASE}/queue`);
  await page.goto(`${origin}${BASE}/history`);
  assert.equal(page.url(), `${origin}${BASE}/queue`);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(`${origin}${BASE}/sign-in`);
  const beside = asked.filter((address) => !address.startsWith(`${origin}${BASE}/`));
  assert.deepEqual(beside, []);
  await page.close();
}

it('it works behind a proxy that takes the path away', async (visit) => {
  const server = await Server.start({ tokens: true });
  const proxy = await proxied(server);
  try {
    await below(visit, server, `http://127.0.0.1:${proxy.address().port}`);
  } finally {
    proxy.closeAllConnections();
    proxy.close();
    await server.close();
  }
});

it.once('it works on a server that knows its path', async (visit) => {
  const server = await Server.start({ tokens: true, env: { WINDROW_SERVER__BASE_PATH: BASE } });
  try {
    // Without its last slash, links would lead one step too high.
    const page = await visit.open(`${server.url}${BASE}`);
    assert.ok(page.url().startsWith(`${server.url}${BASE}/sign-in`), page.url());
    await below(visit, server, server.url);
  } finally {
    await server.close();
  }
});
