// What people come for, from the overview on, in at most four clicks.

import assert from 'node:assert/strict';
import { TORN, busy, torn } from './busy.mjs';
import { rig } from './rig.mjs';

const CLICKS_MAX = 4;

const reading = torn();
const it = rig({ env: reading.env, fill: busy });

/** Something that is done by clicks, which are counted. */
function task(what, body) {
  it(`${what}, in at most ${CLICKS_MAX} clicks`, async (visit) => {
    const page = await visit.open('/');
    let clicks = 0;
    const click = async (locator) => {
      clicks += 1;
      await locator.click();
    };
    await body({ ...visit, page, click });
    assert.ok(clicks <= CLICKS_MAX, `it took ${clicks} clicks`);
  });
}

task('it is found out why an item is stuck', async ({ page, click, filled }) => {
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'reports' }) });
  await row.getByTitle('Nobody claims from this queue').waitFor();
  await click(row.getByRole('link', { name: '1', exact: true }).first());
  await click(page.getByRole('link', { name: 'Quarter 3' }));
  await page.waitForURL(`**/queue/${filled.stuck}`);
  const explained = page.getByRole('region', { name: 'Explain' });
  await explained.getByText('Why it is pending').waitFor();
  assert.match(await explained.innerText(), /no worker/i);
  assert.match(await explained.innerText(), /→ /, 'what would move it on is said');
});

task('all failures of one kind are retried', async ({ server, page, click }) => {
  const failures = page.getByRole('region', { name: 'Failures' });
  const row = failures.getByRole('row').filter({ hasText: 'no space left on device' });
  await click(row.getByRole('button', { name: 'Retry all' }));
  await page.getByText('6 items match').waitFor();
  await click(page.getByRole('button', { name: 'Retry 6 items' }));
  await page.getByText('6 done').waitFor();
  const { items } = await server.get('/queue?filter=status%3Afailed');
  assert.ok(items.some(({ queue }) => queue === 'mail'), 'the other kind stays failed');
  assert.ok(!items.some(({ queue }) => queue === 'thumbs'));
});

task('the page of a document that failed is found and read', async ({ page, click }) => {
  await click(page.getByRole('link', { name: 'Documents', exact: true }));
  const paper = page.getByRole('row').filter({ hasText: 'lighthouse-handbook.pdf' });
  await paper.getByText('1 failed').waitFor();
  await click(paper.getByRole('link'));
  const failed = page.getByRole('region', { name: 'Failed pages' });
  await failed.getByText(TORN).waitFor();
  await failed.locator('.badge.failed').waitFor();
  await click(failed.getByRole('link', { name: 'Page 3' }));
  await page.getByText(TORN).waitFor();
  await page.getByRole('img', { name: 'Page 3' }).waitFor();
  // Its text is there as soon as it can be read.
  reading.mend();
  await click(page.getByRole('button', { name: 'Read again' }));
  await page.locator('.text a.place').first().waitFor({ timeout: 30_000 });
  await page.getByText('Chunk 1').waitFor();
  assert.equal(await page.getByText(TORN).count(), 0);
});
