// The rig itself: it opens pages of a real server, and sees what it must see.
//
// A rig that finds nothing may be blind. So each kind of finding is planted here, on a page of our
// own, and must be found; and every hostile text must run where nobody escapes it.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { existsSync } from 'node:fs';
import { after, before } from 'node:test';
import { CONTEXTS, KINDS, axe, hostile, inert, live, provoke } from './rig.mjs';
import { Server, rig, screenshot, until } from './rig.mjs';

const it = rig();
const control = it.once;

/** How long it may take until all that was provoked has run. */
const PROVOKED_MS = 30_000;

/** A server of ours: what is answered is what was put there. */
const planted = new Map();
let site;

before(async () => {
  const server = createServer((request, response) => {
    if (request.url === '/torn.png') return request.destroy();
    const { status = 200, headers = {}, body = '' } = planted.get(request.url) ?? { status: 404 };
    const type = { 'content-type': 'text/html; charset=utf-8' };
    response.writeHead(status, { ...type, ...headers }).end(body);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  site = { server, url: `http://127.0.0.1:${server.address().port}` };
});

after(() => {
  site.server.closeAllConnections();
  site.server.close();
});

/** Puts something at a path, and gives its address. */
function plant(path, body, headers = {}) {
  planted.set(path, { body, headers });
  return `${site.url}${path}`;
}

/** A page with which nothing is wrong but what is in it. */
function sound(inside) {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Planted</title></head>
    <body><main><h1>Planted</h1>${inside}</main></body></html>`;
}

it('a page of a live server is opened in every manner', async ({ server, open }) => {
  const dark = () => matchMedia('(prefers-color-scheme: dark)').matches;
  const page = await open('/docs');
  assert.match(await page.title(), /Windrow/);
  assert.equal(await page.evaluate(dark), false);
  assert.ok(Array.isArray(await axe(page)));
  assert.ok(existsSync(await screenshot(page, 'docs')));
  const small = await open('/docs', { look: 'dark', phone: true });
  assert.deepEqual(small.viewportSize(), { width: 390, height: 844 });
  assert.equal(await small.evaluate(dark), true);
  const quiet = await open(plant('/quiet', sound('<script>document.title = "ran"</script>')), {
    scripts: false,
  });
  assert.equal(await quiet.title(), 'Planted');
  await open('/no/such/page', { status: 404 });
  assert.ok(server.url.startsWith('http://127.0.0.1:'));
});

it('items and documents get into the server', async ({ server }) => {
  const [first, second] = await server.enqueue('rig', [{ key: 'a' }, { key: 'b' }]);
  const claim = await server.claim('rig', 2);
  assert.deepEqual(claim.items.map(({ id }) => id), [first.id, second.id]);
  await server.settle(claim, 'fail', { error: 'on purpose' });
  assert.equal((await server.get(`/queue/${first.id}`)).status, 'failed');
  const done = await server.done('rig', { payload: { a: 1 } });
  assert.equal((await server.get(`/queue/${done}`)).status, 'completed');
  const documents = await server.inbox(['composting.md', 'corrupt-ledger.pdf']);
  assert.equal(documents['composting.md'].state, 'live');
  assert.equal(documents['corrupt-ledger.pdf'].state, 'failed');
});

it('a server that asks for tokens lets in who shows one, also after a stop', async ({ open }) => {
  const server = await Server.start({ tokens: true });
  try {
    const token = await server.token('viewer');
    await open(`${server.url}/docs`, { status: 401 });
    const { url } = server;
    await server.stop();
    await server.startAgain();
    assert.equal(server.url, url);
    const page = await open(`${url}/docs`, { token });
    await open('/docs/errors', { beside: page });
  } finally {
    await server.close();
  }
});

/** Plants a page and demands that exactly this is found on it, with these words. */
function finds(kind, words, inside, headers = {}) {
  control(`the rig sees ${KINDS[kind]}`, async ({ open, take }) => {
    const page = await open(plant(`/${kind}`, sound(inside()), headers));
    assert.equal(await page.title(), 'Planted');
    const found = await take(kind);
    assert.equal(found.length, 1, JSON.stringify(found));
    assert.match(found[0].text, words);
  });
}

const POLICY = { 'content-security-policy': "default-src 'none'; style-src 'self'" };
const far = () => plant('/far', '').replace('127.0.0.1', 'localhost');
finds('console', /planted words/, () => '<script>console.error("planted words")</script>');
finds('page', /planted end/, () => '<script>throw new Error("planted end")</script>');
finds('csp', /script-src|default-src/, () => '<script>window.__hit = 1</script>', POLICY);
finds('request', /torn\.png: net::/, () => '<img alt="" src="/torn.png">');
finds('answer', /missing\.css: 404/, () => '<link rel="stylesheet" href="/missing.css">');
finds('outside', /GET http:\/\/localhost/, () => `<img alt="" src="${far()}">`);
finds('dialog', /alert: planted box/, () => '<script>alert("planted box")</script>');
finds('hit', /hostile text 7 /, () => '<script>window.__hit = 7</script>');

control('what the policy refuses is seen without JavaScript too', async ({ open, take }) => {
  const inside = '<p style="color: red">text</p>';
  await open(plant('/csp-quiet', sound(inside), POLICY), { scripts: false });
  assert.match((await take('csp'))[0].text, /style-src/);
});

control('a test fails over what nobody took', async ({ open, take, visit }) => {
  await open(plant('/left', sound('<script>console.error("left")</script>')));
  await assert.rejects(visit.clean(), /console at .*\/left\n {4}left/);
  await take('console');
});

control('axe fails over what hinders people and says where it is', async ({ open }) => {
  const page = await open(plant('/hinders', sound('<img src="data:,"><button></button>')));
  await assert.rejects(axe(page), /critical button-name: .*\n {4}button\n {6}<button><\/button>/);
  await axe(page, { without: ['button-name', 'image-alt'] });
  await axe(await open(plant('/sound', sound('<p>text</p>'), POLICY)));
});

control('what could run is seen even if it did not', async ({ open }) => {
  const inside = '<p onclick="1">a</p><a href="java\nscript:1">b</a><i style="--hit: 3">c</i>';
  const page = await open(plant('/live', sound(inside)), { scripts: false });
  assert.deepEqual(await live(page), [
    '<p> has onclick',
    '<a> leads to javascript:',
    '<i> is dressed by hostile text 3',
  ]);
  await assert.rejects(inert(page), /has onclick/);
  await inert(await open(plant('/inert', sound('<a href="/docs">a</a>'))));
});

control('every hostile text runs where nobody escapes it', async ({ open, visit }) => {
  assert.equal(hostile.length, 200);
  assert.equal(new Set(hostile.map(({ text }) => text)).size, hostile.length);
  const frames = hostile.map(({ number, context, text }) => {
    const address = plant(`/hostile/${number}`, `<!doctype html>${CONTEXTS[context](text)}`);
    return `<iframe title="${number}" src="${address}"></iframe>`;
  });
  const page = await open(plant('/hostile', sound(frames.join(''))));
  const ran = new Set();
  const asleep = () => hostile.filter(({ number }) => !ran.has(number));
  const look = async () => {
    await visit.told();
    for (const { number } of visit.findings) if (number) ran.add(Number(number));
    for (const frame of page.frames()) {
      for (const what of await live(frame)) ran.add(Number(/hostile text (\d+)/.exec(what)?.[1]));
    }
    return asleep().length === 0;
  };
  for (const frame of page.frames()) await provoke(frame, { clicks: true });
  // What was clicked runs in its own time.
  await until('a hit', look, PROVOKED_MS).catch(() => {});
  visit.findings = [];
  assert.deepEqual(asleep(), []);
});

control('no hostile text runs where it is escaped', async ({ open }) => {
  const escaped = (text) => text.replaceAll(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
  const rows = hostile.map(({ text }) => `<li title="${escaped(text)}">${escaped(text)}</li>`);
  const page = await open(plant('/escaped', sound(`<ul>${rows.join('')}</ul>`)));
  await provoke(page, { clicks: true });
  await inert(page);
});
