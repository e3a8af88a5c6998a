// Every action: pressed on a page, and then looked for in the API and in the audit.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TORN, torn } from './busy.mjs';
import { axe, rig, screenshot, until } from './rig.mjs';

const reading = torn();
const it = rig({ env: reading.env });

/** Presses a button on a page and waits for what is said afterwards; says yes if asked. */
async function press(page, name, said, { within = page, asked = null } = {}) {
  // What was said before is not what is waited for.
  await page.locator('.said').evaluateAll((before) => before.forEach((each) => each.remove()));
  await within.getByRole('button', { name, exact: true }).first().click();
  if (asked) {
    const dialog = page.getByRole('dialog');
    await dialog.getByText(asked).waitFor();
    await dialog.getByRole('button', { name: 'Yes' }).click();
  }
  await page.locator('.said').getByText(said).waitFor();
}

/** Demands that the audit names an operation, and what it was done to. */
async function audited(server, operation, target) {
  const { entries } = await server.get('/audit');
  const named = entries.filter((entry) => entry.operation === operation);
  const isIt = ({ targets, outcome }) => outcome === 'done' && targets.includes(target);
  const found = named.some(isIt);
  assert.ok(found, `the audit does not name ${operation} of ${target}: ${JSON.stringify(named)}`);
}

const status = async (server, id) => (await server.get(`/queue/${id}`)).status;

/** Three failed items of a queue. */
async function threeFailed(server, queue) {
  const items = await server.enqueue(queue, [{ key: 'a' }, { key: 'b' }, { key: 'c' }]);
  await server.settle(await server.claim(queue, 3), 'fail', { error: `torn in ${queue}` });
  return items.map(({ id }) => id);
}

it('one item is retried, prioritised, cancelled and deleted', async ({ server, open }) => {
  const id = await server.done('one', {}, 'fail', { error: 'torn' });
  const page = await open(`/queue/${id}`);
  await press(page, 'Retry', 'The item is in line again.');
  assert.equal(await status(server, id), 'pending');
  await audited(server, 'POST /queue/{id}/retry', id);
  await page.getByLabel('priority').fill('9');
  await press(page, 'Prioritise', 'The item has another priority.');
  assert.equal((await server.get(`/queue/${id}`)).priority, 9);
  await audited(server, 'POST /queue/{id}/prioritise', id);
  await press(page, 'Cancel', 'The item is cancelled', { asked: 'Cancel this item' });
  assert.equal(await status(server, id), 'cancelled');
  await audited(server, 'POST /queue/{id}/cancel', id);
  await press(page, 'Delete', 'The item is deleted.', { asked: 'Delete this item' });
  assert.equal(new URL(page.url()).pathname, '/queue');
  await server.get(`/queue/${id}`, { status: 404 });
  await audited(server, 'DELETE /queue/{id}', id);
});

it('nothing is done to who says no, and a refusal is told', async ({ server, open }) => {
  const { id } = await server.enqueue('no', {});
  const page = await open(`/queue/${id}`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'No' }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  assert.equal(await status(server, id), 'pending');
  await page.getByLabel('priority').fill('99');
  await press(page, 'Prioritise', 'Not done: priority');
  assert.equal((await server.get(`/queue/${id}`)).priority, 5);
});

it('a selection is retried, prioritised, cancelled and deleted', async ({ server, open }) => {
  const [first, second, third] = await threeFailed(server, 'some');
  const page = await open('/queue?filter=queue%3Asome');
  const select = async () => {
    for (const id of [first, second]) await page.getByLabel(`Select ${id}`).check();
  };
  const are = async (wanted) => {
    assert.deepEqual([await status(server, first), await status(server, second)], [wanted, wanted]);
    assert.equal(await status(server, third), 'failed', 'it was not selected');
  };
  await press(page, 'Retry', 'Nothing is selected.');
  await select();
  await press(page, 'Retry', 'Retry: 2 done.');
  await are('pending');
  await select();
  await page.getByLabel('priority').fill('2');
  await press(page, 'Re-prioritise', 'Re-prioritise: 2 done.');
  assert.equal((await server.get(`/queue/${second}`)).priority, 2);
  await select();
  await press(page, 'Cancel', 'Cancel: 2 done.');
  await are('cancelled');
  await page.getByLabel('Select all on this page').check();
  assert.equal(await page.locator('input[name=id]:checked').count(), 3);
  await page.getByLabel(`Select ${third}`).uncheck();
  await press(page, 'Delete', 'Delete: 2 done.');
  for (const id of [first, second]) await server.get(`/queue/${id}`, { status: 404 });
  for (const operation of ['retry', 'prioritise', 'cancel']) {
    await audited(server, `POST /queue/{id}/${operation}`, second);
  }
  await audited(server, 'DELETE /queue/{id}', second);
});

it('all that matches is counted, confirmed and done before one’s eyes', async (visit) => {
  const { server, open } = visit;
  const many = Array.from({ length: 30 }, (_, number) => ({ key: `${number}` }));
  await server.enqueue('many', many);
  await server.settle(await server.claim('many', 30), 'fail', { error: 'torn' });
  await server.done('other', {}, 'fail', { error: 'torn' });
  const verbs = [
    ['Retry', 'status:failed queue:many', 'pending'],
    ['Re-prioritise', 'status:pending queue:many', 'pending'],
    ['Cancel', 'status:pending queue:many', 'cancelled'],
    ['Delete', 'status:cancelled queue:many', null],
  ];
  for (const [verb, filter, wanted] of verbs) {
    const page = await open(`/queue?filter=${encodeURIComponent(filter)}`);
    await page.getByLabel('To which items').selectOption('all');
    await page.getByRole('button', { name: verb, exact: true }).click();
    await page.getByText('30 items match').waitFor();
    const counts = async () => (await server.get('/queue/stats?queue=many'))[wanted] ?? 0;
    const before = await counts();
    if (wanted !== 'pending') assert.equal(before, 0, 'counting does nothing');
    await page.getByRole('button', { name: `${verb} 30 items` }).click();
    await page.getByText('30 done').waitFor();
    await page.getByRole('img', { name: '30 of 30' }).waitFor();
    await page.locator('.badge.done').waitFor();
    if (verb === 'Retry') await screenshot(page, 'console-operation-done');
    const left = await server.get('/queue/stats?queue=many');
    assert.equal(wanted ? left[wanted] : left.total ?? left.cancelled, wanted ? 30 : 0, verb);
    const operation = new URL(page.url()).pathname.split('/').at(-1);
    await audited(server, 'POST /operations', operation);
    await page.close();
  }
  const [one] = (await server.get('/queue?filter=status%3Afailed%20queue%3Aother')).items;
  assert.equal(one.status, 'failed', 'what did not match stays');
});

it('what is typed into the filter holds, whatever the drop-downs showed', async (visit) => {
  const { server, open } = visit;
  await server.done('typed', { source_info: 'torn' }, 'fail', { error: 'torn' });
  await server.done('typed', { source_info: 'whole' });
  const page = await open('/queue?filter=queue%3Atyped%20status%3Afailed');
  const field = page.getByLabel('Filter', { exact: true });
  await field.fill('queue:typed status:completed');
  await field.press('Enter');
  await page.getByRole('cell', { name: 'whole' }).waitFor();
  assert.equal(await field.inputValue(), 'queue:typed status:completed');
  await page.getByLabel('Status', { exact: true }).selectOption('failed');
  await page.getByRole('cell', { name: 'torn' }).first().waitFor();
  assert.match(await field.inputValue(), /status:failed/);
  // Enter in the field of the priority is no button.
  const here = page.url();
  await page.getByRole('checkbox').nth(1).check();
  await page.getByRole('spinbutton').press('Enter');
  assert.equal(page.url(), here);
  const { items } = await server.get('/queue?filter=queue%3Atyped%20status%3Afailed');
  assert.equal(items.length, 1, 'it was not retried');
});

it('the monitor pauses, resumes, and limits a queue', async ({ server, open }) => {
  const [first] = await server.enqueue('levers', [{ key: 'a' }, { key: 'b' }]);
  const page = await open('/admin/queue-monitor');
  const oldest = await page.getByText('Oldest pending:').innerText();
  assert.match(oldest, /, created .+; the first in line there has been waiting for \d/);
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'levers' }) });
  const levers = row.filter({ has: page.getByRole('spinbutton') });
  const queue = async () => (await server.get('/queues')).find((one) => one.queue === 'levers');
  await press(page, 'Pause', 'Queue levers hands out nothing', { within: levers });
  assert.equal((await queue()).paused.length, 1);
  await audited(server, 'POST /queues/{queue}/pause', 'levers');
  await press(page, 'Resume', 'Queue levers hands out work again.', { within: levers });
  assert.deepEqual((await queue()).paused, []);
  await audited(server, 'POST /queues/{queue}/resume', 'levers');
  const fields = levers.getByRole('spinbutton');
  const [group, rate] = [fields.first(), fields.last()];
  await group.fill('3');
  await press(page, 'Set', 'The limit of queue levers holds from the next claim on.', { within: levers });
  assert.equal((await queue()).settings.group_limit, 3);
  await audited(server, 'PUT /queues/{queue}/settings', 'levers');
  await rate.fill('12');
  await levers.getByRole('button', { name: 'Set' }).last().click();
  await page.getByText('levers: at most 12 in a minute from now on.').waitFor();
  const { settings } = await queue();
  assert.equal(settings.group_limit, 3, 'the one lever leaves the other');
  const { limits } = await server.get(`/resources/${settings.resource}`);
  assert.deepEqual([limits.rate.count, limits.rate.per_ms], [12, 60_000]);
  await audited(server, 'PUT /resources/{resource}', settings.resource);
  assert.equal(await rate.inputValue(), '12');
  // Whatever else the resource bears is none of the lever's business.
  const careful = { ...limits, failures: 4, rest_ms: 90_000 };
  await server.call('PUT', `/resources/${settings.resource}`, careful);
  await rate.fill('1e3');
  await levers.getByRole('button', { name: 'Set' }).last().click();
  await page.getByText('Not done: per_minute must be a whole number').waitFor();
  const borne = async () => (await server.get(`/resources/${settings.resource}`)).limits;
  assert.deepEqual(await borne(), careful, 'what cannot be read is not taken for nothing');
  await rate.fill('');
  await levers.getByRole('button', { name: 'Set' }).last().click();
  await page.getByText('levers: as many as workers take.').waitFor();
  const { rate: none, failures, rest_ms: rest } = await borne();
  assert.deepEqual([none, failures, rest], [null, 4, 90_000]);
  // Recent jobs are acted on there, too.
  const job = page.locator(`tr[data-key="${first.id}"]`);
  await press(page, 'Cancel', 'The job is cancelled.', { within: job, asked: 'Cancel this job' });
  assert.equal(await status(server, first.id), 'cancelled');
  await press(page, 'Retry', 'The job is in line again.', { within: job });
  assert.equal(await status(server, first.id), 'pending');
});

it('a worker is drained and gets work again', async ({ server, open }) => {
  await server.enqueue('drained', {});
  await server.claim('drained', 1, { worker: 'ox' });
  const page = await open('/workers');
  const row = page.getByRole('row').filter({ hasText: 'ox' });
  const worker = async () => (await server.get('/workers')).find((one) => one.name === 'ox');
  await press(page, 'Drain', 'Worker ox gets no more work', { within: row });
  assert.equal((await worker()).drained, true);
  await audited(server, 'POST /workers/{name}/drain', 'ox');
  await row.getByText('drained').first().waitFor();
  await press(page, 'Resume', 'Worker ox gets work again.', { within: row });
  assert.equal((await worker()).drained, false);
  await audited(server, 'POST /workers/{name}/resume', 'ox');
});

it('a schedule is run, turned off and on, and deleted', async ({ server, open }) => {
  const payload = '{"z":1.10,"big":123456789012345678901234567890}';
  const item = `{"queue":"by-the-clock","kind":"report","payload":${payload}}`;
  const written = Buffer.from(`{"cron":"0 3 * * *","overlap":"skip","item":${item}}`);
  const headers = { 'content-type': 'application/json' };
  await server.call('PUT', '/schedules/nightly', written, { headers });
  const page = await open('/schedules');
  await press(page, 'Run now', 'Schedule nightly ran.');
  const { items } = await server.get('/queue?filter=queue%3Aby-the-clock');
  assert.equal(items.length, 1);
  await audited(server, 'POST /schedules/{name}/run', 'nightly');
  const schedule = () => server.get('/schedules/nightly');
  await press(page, 'Turn off', 'Schedule nightly is off.');
  assert.equal((await schedule()).enabled, false);
  await page.getByText('‖ off').waitFor();
  await press(page, 'Turn on', 'Schedule nightly is on.');
  const kept = await schedule();
  assert.deepEqual([kept.enabled, kept.overlap], [true, 'skip']);
  const told = await (await fetch(`${server.url}/api/v1/schedules/nightly`)).text();
  assert.ok(told.includes(payload), `letter by letter: ${told}`);
  await audited(server, 'PUT /schedules/{name}', 'nightly');
  await press(page, 'Delete', 'Schedule nightly is deleted.', { asked: 'Delete this schedule?' });
  await server.get('/schedules/nightly', { status: 404 });
  await audited(server, 'DELETE /schedules/{name}', 'nightly');
  await page.getByText('Nothing runs by the clock yet.').waitFor();
});

it('a folder is looked at again, paused, resumed and forgotten', async ({ server, open }) => {
  const path = join(server.dir, 'watched');
  mkdirSync(path);
  await server.call('PUT', '/sources/watched', { path });
  const source = () => server.get('/sources/watched');
  const watches = () => until('a look', async () => (await source()).state === 'watching');
  await watches();
  const page = await open('/sources');
  writeFileSync(join(path, 'new.md'), '# New\n\nA new file.\n');
  await press(page, 'Rescan', 'Source watched is looked at again.');
  await audited(server, 'POST /sources/{name}/rescan', 'watched');
  await press(page, 'Pause', 'Done.');
  await until('a pause', async () => (await source()).state === 'paused');
  await audited(server, 'POST /sources/{name}/pause', 'watched');
  await press(page, 'Resume', 'Done.');
  await watches();
  await audited(server, 'POST /sources/{name}/resume', 'watched');
  await press(page, 'Forget', 'Done.', { asked: 'Watch this folder no more?' });
  await server.get('/sources/watched', { status: 404 });
  await audited(server, 'DELETE /sources/{name}', 'watched');
});

it('a document is mended, read again, done again and deleted', async ({ server, open }) => {
  const { id } = await server.built(await server.add('lighthouse-handbook.pdf'));
  const progress = () => server.get(`/documents/${id}/progress`);
  assert.equal((await progress()).ocr_failed_pages, 1);
  const page = await open(`/documents/${id}`);
  await page.getByText(TORN).first().waitFor();
  reading.mend();
  await press(page, 'Do again what failed', 'What failed is in line again.');
  await audited(server, 'POST /documents/{id}/recover-failed', id);
  await until('the third page', async () => (await progress()).ocr_completed_pages === 3);
  await page.getByText('ocr 3/3').waitFor();
  const events = async (item) => (await server.get(`/queue/${item}/events`)).length;
  const manifest = await server.get(`/documents/${id}/manifest?from=2&limit=1`);
  const item = manifest.pages[0].item.id;
  await until('an end', async () => (await status(server, item)) === 'completed');
  const before = await events(item);
  await page.goto(`${server.url}/documents/${id}/pages/2`);
  await press(page, 'Read again', 'The page is in line again.');
  await audited(server, 'POST /queue/{id}/retry', item);
  assert.ok((await events(item)) > before);
  await until('an end', async () => (await status(server, item)) === 'completed');
  await page.goto(`${server.url}/documents/${id}`);
  await press(page, 'Do all again', 'A new version is made');
  await audited(server, 'POST /documents/{id}/reindex', id);
  await until('a new version', async () => {
    const { generation, live_generation: live } = await server.get(`/documents/${id}`);
    return generation === 2 && live === 2;
  });
  await press(page, 'Delete', 'The document is being removed.', { asked: 'Delete this document' });
  await audited(server, 'DELETE /documents/{id}', id);
  assert.equal(new URL(page.url()).pathname, '/documents');
  await until('its end', async () => {
    const { documents } = await server.get('/documents');
    return !documents.some((document) => document.id === id && document.state !== 'deleting');
  });
});

it('what is kept is set, and the audit is shown', async ({ server, open }) => {
  const page = await open('/admin/settings');
  const kept = page.getByRole('region', { name: 'Retention' });
  await kept.getByLabel('Days').fill('30');
  await kept.getByLabel('Of a tenant').fill('1234');
  await press(page, 'Save', 'The retention holds from the next sweep on.');
  const { max_age_days: days, max_per_user: most } = await server.get('/admin/settings/queue');
  assert.deepEqual([days, most], [30, 1234]);
  await page.getByText('PATCH /admin/settings/queue').first().waitFor();
  await axe(page);
});

it('a form that names no count touches nothing', async ({ server }) => {
  const { id } = await server.enqueue('untouched');
  for (const body of ['verb=delete', 'verb=cancel&filter=', 'of=&verb=cancel']) {
    const reply = await fetch(`${server.url}/operations/confirm`, {
      method: 'POST',
      headers: { origin: server.url, 'content-type': 'application/x-www-form-urlencoded' },
      body,
      redirect: 'manual',
    });
    assert.ok(reply.status >= 400, `${body}: ${reply.status}`);
  }
  assert.equal((await server.get(`/queue/${id}`)).status, 'pending');
});
