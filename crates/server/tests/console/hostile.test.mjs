// Hostile texts in everything that is stored, and in everything that an address or a cookie says.
//
// What is asked of every page: it is whole, nothing of it is live, nothing ran, and the browser had
// nothing to refuse.

import assert from 'node:assert/strict';
import { hostile, hostileOf, inert, provoke, rig, until } from './rig.mjs';

const it = rig({ fill });

/** Bytes that fields take; longer texts are cut, at their beginning, where nothing happens. */
const [NAME, KEY, TEXT, ERROR, METADATA] = [128, 512, 1024, 4096, 4096];
/** Items of a page of the queue. */
const SHOWN = 50;

/** As many of the last bytes of a text as a field takes, without what a name may not have. */
function fitting(text, most, isName = true) {
  let rest = isName ? text.replaceAll(/\p{Cc}/gu, ' ') : text.replaceAll('\0', ' ');
  while (Buffer.byteLength(rest) > most) rest = rest.slice(-most, rest.length).slice(1);
  return rest;
}

const name = ({ text }) => fitting(text, NAME);

/** Many texts in one, for where there is room: at most so many bytes, each in one of the lists. */
function together(most) {
  const lists = [[]];
  for (const { text } of hostileOf({ longest: most - 10 })) {
    const list = lists.at(-1);
    if (Buffer.byteLength(JSON.stringify([...list, text])) < most) list.push(text);
    else lists.push([text]);
  }
  return lists;
}

/** An item with a hostile text, and others, in each of its fields. */
function item(one, at) {
  const other = (by) => hostile[(at + by) % hostile.length];
  const metadata = fitting(other(9).text, METADATA / 8, false);
  return {
    queue: name(one),
    key: fitting(one.text, KEY),
    kind: name(other(1)),
    group: name(other(2)),
    collection: name(other(3)),
    branch: name(other(4)),
    source_type: name(other(5)),
    source_info: fitting(other(6).text, TEXT, false),
    ref: fitting(other(7).text, TEXT, false),
    tenant: name(other(8)),
    metadata: { [metadata]: metadata },
    payload: { [other(10).text]: other(11).text },
  };
}

async function fill(server) {
  const items = await ofItems(server);
  const heaps = await ofHeaps(server);
  await ofSchedules(server);
  // Last, because items are claimed from all queues, and so would documents be.
  const documents = await ofDocuments(server);
  return { items, heaps, documents };
}

/** Every text in every field, half of them failed with it, half of them done. */
async function ofItems(server) {
  const made = await server.call('POST', '/items', hostile.map(item));
  const refused = made.filter(({ id }) => !id);
  assert.deepEqual(refused, []);
  for (let at = 0; ; at++) {
    const one = hostile[at % hostile.length];
    const worker = name(one);
    const claim = await server.call('POST', '/claims', { worker, max: 8 });
    if (!claim.items.length) break;
    const error = { outcome: 'fail', error: fitting(one.text, ERROR, false) };
    const result = { outcome: 'complete', result: { [one.text]: one.text } };
    const skip = { outcome: 'skip', reason: fitting(one.text, TEXT, false) };
    const endings = [error, result, skip, error];
    const settled = claim.items.map(({ id }, of) => ({ id, ...endings[of % 4] }));
    const answers = await server.call('POST', `/leases/${claim.lease}/settle`, { items: settled });
    assert.deepEqual(answers.filter(({ error }) => error), []);
  }
  return made.map(({ id }) => id);
}

/** Items that hold many texts each, so that few pages show all of them. */
async function ofHeaps(server) {
  const heaps = [];
  for (const list of together(METADATA - 100)) {
    const [ends, payload] = [Object.fromEntries(list.map((text) => [text, text])), list];
    const item = { payload: { list: payload, ends }, metadata: list };
    heaps.push(await server.done('heap', item, 'complete', { result: ends }));
    heaps.push(await server.done('heap', item, 'fail', { error: list.join('\n').slice(0, ERROR) }));
  }
  return heaps;
}

/** Their names are plain, or refused; what they enqueue, and for whom, is anything. */
async function ofSchedules(server) {
  for (const one of hostile.filter((_, at) => at % 5 === 0)) {
    const written = { cron: '0 3 * * *', item: item(one, one.number), enabled: false };
    const path = `/schedules/s${one.number}?tenant=${encodeURIComponent(name(one))}`;
    await server.call('PUT', path, { ...written, item: { ...written.item, tenant: undefined } });
  }
}

/** Documents whose names and words are hostile, also where words become entities. */
async function ofDocuments(server) {
  const texts = together(1500);
  const added = texts.map((list, at) => {
    const words = list.map((text) => `# ${text}\n\nAda ${text} met Charles ${text} in London.\n`);
    const called = fitting(list[0], 200).replaceAll('/', '⁄');
    const type = at % 2 ? 'text/html' : 'text/markdown';
    const file = { name: called, bytes: Buffer.from(words.join('\n')), type };
    return server.add(file, { collection: fitting(list.at(-1), NAME) });
  });
  return Promise.all((await Promise.all(added)).map((one) => server.built(one)));
}

/** Looks at pages one after another in one context, with hands that touch everything. */
async function harmless(visit, paths, { beside } = {}) {
  const page = beside ?? (await visit.open('/sign-in'));
  for (const path of paths) {
    const answer = await page.goto(`${visit.server.url}${path}`);
    assert.equal(answer.status(), 200, `${path} was answered with ${answer.status()}`);
    assert.equal(await page.getByRole('main').count(), 1, `${path} is not whole`);
    assert.equal(await page.locator('dialog#sure').count(), 1, `${path} ends before its end`);
    await provoke(page);
    await inert(page);
  }
  return page;
}

it('all hostile texts are stored', async ({ server, filled }) => {
  assert.equal(new Set(filled.items).size, hostile.length);
  const stats = await server.get('/queue/stats');
  assert.ok(stats.failed >= hostile.length / 3 && stats.completed > 0 && stats.skipped > 0);
  assert.ok((await server.get('/workers')).length >= 20);
});

it('items do nothing in lists', async (visit) => {
  const paths = ['/', '/admin/queue-monitor', '/admin/system', '/workers', '/schedules'];
  const page = await harmless(visit, paths);
  await page.goto(`${visit.server.url}/queue`);
  let shown = 0;
  for (;;) {
    shown += await page.locator('tbody tr').count();
    await provoke(page);
    await inert(page);
    const next = page.getByRole('link', { name: 'Older »' });
    if (!(await next.count())) break;
    await next.click();
  }
  assert.ok(shown >= hostile.length, `${shown} were shown`);
});

it('an item does nothing on its page, in any tab', async (visit) => {
  const { items, heaps } = visit.filled;
  const tabs = ['raw', 'extracted', 'error', 'events'];
  const paths = heaps.flatMap((id) => tabs.map((tab) => `/queue/${id}?tab=${tab}`));
  const some = items.filter((_, at) => at % 8 === 0).map((id) => `/queue/${id}`);
  const page = await harmless(visit, [...some, ...paths.filter((path) => path.endsWith('raw'))]);
  assert.ok((await page.locator('pre.json').count()) > 0);
  await harmless(visit, paths.filter((path) => !path.endsWith('raw')), { beside: page });
});

it.once('an item does nothing while it is sent to a live page', async (visit) => {
  const { server } = visit;
  const page = await harmless(visit, ['/queue']);
  const made = await server.call('POST', '/items', hostile.slice(0, SHOWN - 10).map(item));
  const last = made.at(-1).id;
  await page.locator(`tr[data-key="${last}"]`).waitFor();
  await provoke(page);
  await inert(page);
});

it('documents, their texts and their entities do nothing', async (visit) => {
  const { documents } = visit.filled;
  assert.ok(documents.length > 3);
  const paths = documents.flatMap(({ id, collection, state, pages }) => {
    const all = [`/documents/${id}`, `/documents/${id}/pages/1`];
    assert.ok(state === 'failed' || pages > 0);
    return [...all, `/documents/graph?collection=${encodeURIComponent(collection)}`];
  });
  const page = await harmless(visit, ['/documents', ...paths, '/search?q=Ada%20London']);
  assert.ok((await page.locator('.hits li').count()) > 0);
});

it.once('what an address says does nothing', async (visit) => {
  const page = await visit.open('/sign-in');
  const said = together(1800).map((list) => encodeURIComponent(list.join(' ')));
  const id = visit.filled.items[0];
  const places = [
    (text) => `/queue?filter=${text}&source_type=${text}&status=${text}`,
    (text) => `/queue?filter=%22${text}%22`,
    (text) => `/queue/${id}?tab=${text}`,
    (text) => `/search?q=${text}&collection=${text}&tenant=${text}`,
    (text) => `/sign-in?to=${text}`,
    (text) => `/documents/graph?q=${text}&type=${text}&entity=${text}&collection=${text}`,
    (text) => `/documents?q=${text}&collection=${text}`,
    (text) => `/queue?cursor=${text}`,
    (text) => `/queue/${text}`,
  ];
  for (const place of places) {
    for (const text of said) {
      await page.goto(`${visit.server.url}${place(text)}`);
      assert.equal(await page.getByRole('main').count(), 1, `${place(text)} is not whole`);
      await inert(page);
    }
  }
  // What is no page and no cursor is refused, by a page.
  await visit.take('answer');
});

it.once('what a cookie says does nothing', async (visit) => {
  const page = await visit.open('/sign-in');
  const lists = together(2500);
  for (const list of lists) {
    const value = encodeURIComponent(list.join(' '));
    const cookie = (name) => ({ name, value: value.slice(0, 3900), url: visit.server.url });
    await page.context().addCookies([cookie('windrow_said'), cookie('windrow_theme')]);
    await page.goto(`${visit.server.url}/queue`);
    assert.equal(await page.locator('.said').count(), 1, 'it is said');
    assert.equal(await page.locator('html').getAttribute('data-theme'), 'system');
    await inert(page);
  }
});

it.once('what a form says leads nowhere else', async (visit) => {
  const { server } = visit;
  const headers = { origin: server.url, 'sec-fetch-site': 'same-origin' };
  for (const { text } of hostileOf({ longest: 600 })) {
    for (const path of ['/theme', '/act', '/operations']) {
      const fields = ['back', 'then', 'do', 'theme', 'verb'].map((field) => [field, text]);
      const sent = { method: 'POST', headers, redirect: 'manual' };
      const body = new URLSearchParams(fields);
      const answer = await fetch(`${server.url}${path}`, { ...sent, body });
      assert.equal(answer.status, 303, `${path} with ${text}`);
      const to = new URL(answer.headers.get('location'), `${server.url}${path}`);
      assert.equal(to.origin, server.url, `${path} with ${text}`);
    }
  }
});

it.once('until the end nothing was run', async (visit) => {
  // Every test demands that of itself; this one, that what was planted would be seen.
  const page = await visit.open('/queue');
  await page.evaluate(() => (window.__hit = 1));
  await until('the hit', async () => (await visit.take('hit')).length === 1);
});
