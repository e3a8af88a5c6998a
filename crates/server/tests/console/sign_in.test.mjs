// Who may come in, what each role sees and does, and how a session ends.

import assert from 'node:assert/strict';
import { axe, rig, screenshot, until } from './rig.mjs';

const it = rig({ tokens: true });

/** Signs in on the page that asks for it. */
async function signIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** A page on which somebody of a role is signed in. */
async function signedIn({ server, open }, role, path = '/', name = `${role} Ada`) {
  const token = await server.token(role, { name });
  const page = await open(path);
  await signIn(page, token);
  await page.getByText(`${name} · ${role}`).waitFor();
  return page;
}

/** Sends a form as a page of a site would, with the cookies of a page. */
async function form(page, path, sent, headers = {}) {
  const { origin } = new URL(page.url());
  const ours = { origin, 'sec-fetch-site': 'same-origin' };
  const cookies = await page.context().cookies();
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
  return fetch(`${origin}${path}`, {
    method: 'POST',
    redirect: 'manual',
    headers: { ...ours, cookie, 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(sent),
  });
}

it('a page leads to where one signs in, and back', async ({ server, open, take }) => {
  const token = await server.token('viewer');
  const page = await open('/queue?filter=status%3Afailed');
  assert.equal(new URL(page.url()).pathname, '/sign-in');
  await axe(page);
  await screenshot(page, 'console-sign-in-asked');
  await signIn(page, 'not-a-token');
  await page.getByText('This token is not known here, or has expired or was revoked.').waitFor();
  assert.deepEqual((await take('answer')).length, 1);
  await signIn(page, token);
  await page.waitForURL('**/queue?filter=status%3Afailed');
  const [session, ...others] = await page.context().cookies();
  assert.deepEqual(others, []);
  assert.deepEqual([session.httpOnly, session.sameSite], [true, 'Strict']);
  assert.ok(!session.value.includes(token), 'a browser keeps no token');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await page.goto(`${server.url}/queue`);
  assert.equal(new URL(page.url()).pathname, '/sign-in', 'the session is over');
});

it.once('nobody is led elsewhere by an address', async ({ server, open }) => {
  const token = await server.token('viewer');
  const evil = ['//evil.example', 'https://evil.example/', '\\\\evil.example', '..//evil.example'];
  for (const to of evil) {
    const page = await open(`/sign-in?to=${encodeURIComponent(to)}`);
    await signIn(page, token);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(new URL(page.url()).origin, server.url);
  }
});

it('a viewer reads, and can press nothing', async (visit) => {
  const { server, open, take } = visit;
  const id = await server.done('viewed', {}, 'fail', { error: 'torn' });
  const page = await signedIn(visit, 'viewer');
  const names = ['', 'queue', `queue/${id}`, 'workers', 'schedules', 'documents', 'sources'];
  for (const path of names.map((name) => `/${name}`)) {
    await page.goto(`${server.url}${path}`);
    await page.getByRole('main').waitFor();
    const forms = page.locator('main form[method=post] button:visible');
    assert.deepEqual(await forms.allInnerTexts(), [], path);
    assert.equal(await page.getByRole('link', { name: 'Monitor' }).count(), 0);
  }
  for (const path of ['/admin/queue-monitor', '/admin/system', '/admin/settings']) {
    const refused = await open(path, { beside: page, status: 403 });
    await axe(refused);
    await refused.getByRole('link', { name: 'To the overview' }).waitFor();
  }
  // Nor by hand.
  const retry = { do: `POST /queue/${id}/retry`, with: '{}', back: 'queue' };
  const answer = await form(page, '/act', retry);
  assert.match(answer.headers.get('set-cookie'), /Not%20done/);
  assert.equal((await form(page, '/operations', { verb: 'delete', filter: '' })).status, 403);
  assert.equal((await form(page, '/admin/rate', { queue: 'viewed', per_minute: 1 })).status, 403);
  assert.equal((await server.get(`/queue/${id}`)).status, 'failed');
  await take('answer');
});

it('an operator acts, and does not configure', async (visit) => {
  const { server } = visit;
  const id = await server.done('operated', {}, 'fail', { error: 'torn' });
  const page = await signedIn(visit, 'operator', `/queue/${id}`);
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.getByText('The item is in line again.').waitFor();
  assert.equal((await server.get(`/queue/${id}`)).status, 'pending');
  const { entries } = await server.get('/audit');
  const named = entries.find(({ targets }) => targets.includes(id));
  assert.deepEqual([named.caller, named.operation], ['operator Ada', 'POST /queue/{id}/retry']);
  await page.goto(`${server.url}/admin/settings`);
  await page.getByText('Tokens and the audit are for admins.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Save' }).count(), 0);
  const patch = { do: 'PATCH /admin/settings/queue', with: '{"max_age_days":1}', back: '' };
  assert.match((await form(page, '/act', patch)).headers.get('set-cookie'), /Not%20done/);
});

it('an admin revokes a token, which ends its session and its stream', async (visit) => {
  const { server, take } = visit;
  const viewer = await signedIn(visit, 'viewer', '/queue', 'Zenobia');
  await viewer.locator('body[data-fresh]').waitFor({ state: 'attached' });
  let isOver = false;
  viewer.on('requestfinished', (request) => (isOver ||= request.url().includes('/live?')));
  const admin = await signedIn(visit, 'admin', '/admin/settings');
  const row = admin.getByRole('row').filter({ hasText: 'Zenobia' });
  await row.getByRole('button', { name: 'Revoke' }).click();
  await admin.getByRole('dialog').getByText('locked out').waitFor();
  await admin.getByRole('dialog').getByRole('button', { name: 'Yes' }).click();
  await admin.getByText('The token opens nothing any more.').waitFor();
  const token = (await server.get('/tokens')).find(({ name }) => name === 'Zenobia');
  assert.notEqual(token.revoked_at, null);
  const { entries } = await server.get('/audit');
  const revoked = entries.find(({ operation }) => operation === 'DELETE /tokens/{token}');
  assert.deepEqual(revoked.targets, [token.id]);
  await until('the end of the stream', () => isOver);
  // Whoever looks at the page is told, without touching it.
  await viewer.waitForURL('**/sign-in?to=queue');
  await take('console');
});

it('an admin makes a token, which is shown once and opens', async (visit) => {
  const { server, open } = visit;
  const admin = await signedIn(visit, 'admin', '/admin/settings');
  const made = admin.getByRole('region', { name: 'Tokens' });
  await made.getByLabel('Name').fill('Hypatia');
  await made.getByLabel('Role').selectOption('operator');
  await made.getByRole('button', { name: 'Make a token' }).click();
  await admin.getByText('it is not shown again').waitFor();
  const token = await admin.locator('.copied code').innerText();
  const page = await open('/sign-in');
  await signIn(page, token);
  await page.getByText('Hypatia · operator').waitFor();
  await admin.goto(`${server.url}/admin/settings`);
  await admin.getByText('POST /tokens').first().waitFor();
  assert.ok(!(await admin.content()).includes(token));
});

it('a session looks, and acts only by forms of this server', async (visit) => {
  const { server } = visit;
  const { id } = await server.enqueue('crossed', {});
  const page = await signedIn(visit, 'operator');
  const cancel = { do: `POST /queue/${id}/cancel`, back: 'queue' };
  const evil = [
    { origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' },
    { origin: 'null', 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ];
  const acts = ['act', 'operations', 'operations/confirm', 'admin/rate', 'theme', 'sign-out'];
  for (const headers of evil) {
    for (const path of acts.map((name) => `/${name}`)) {
      const answer = await form(page, path, cancel, headers);
      const what = `${path} ${JSON.stringify(headers)}: ${answer.status}`;
      assert.ok([403, 421].includes(answer.status), what);
      assert.equal(answer.headers.get('set-cookie'), null);
    }
  }
  const [{ name, value }] = await page.context().cookies();
  const headers = { cookie: `${name}=${value}` };
  // The API gives what a page shows, such as pictures, and does nothing.
  await server.get(`/queue/${id}`, { token: null, headers });
  await server.call('POST', `/queue/${id}/cancel`, {}, { token: null, headers, status: 401 });
  await server.call('DELETE', `/queue/${id}`, undefined, { token: null, headers, status: 401 });
  assert.equal((await server.get(`/queue/${id}`)).status, 'pending');
  // And the same form, from here, does it.
  assert.equal((await form(page, '/act', cancel)).status, 303);
  assert.equal((await server.get(`/queue/${id}`)).status, 'cancelled');
});

it.once('a forged session is none', async (visit) => {
  const { server, open } = visit;
  const page = await signedIn(visit, 'viewer');
  const [cookie] = await page.context().cookies();
  const swapped = cookie.value.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
  for (const value of [swapped, '', 'x', cookie.value.slice(1)]) {
    await page.context().addCookies([{ ...cookie, value }]);
    const asked = await open('/queue', { beside: page });
    assert.equal(new URL(asked.url()).pathname, '/sign-in', value);
  }
});
