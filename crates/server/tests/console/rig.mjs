// The rig of the browser tests: a file has one Chromium and one server, each test a visit.
//
//     import { rig, axe, screenshot } from './rig.mjs';
//
//     const it = rig();
//
//     it('a failed item is shown with its error', async ({ server, open }) => {
//       const id = await server.done('q', {}, 'fail', { error: 'torn' });
//       const page = await open(`/queue/${id}`, { look: 'dark', phone: true });
//       await page.getByText('torn').waitFor();
//       await axe(page);
//       await screenshot(page, 'failed-item');
//     });
//
// A test fails if the browser found anything that the test did not take (`take('csp')`). The server
// is shared by the tests of a file: use a queue of your own, or `Server.start()` for one.

import { after, before, test } from 'node:test';
import { Visit, launch, screenshot } from './browser.mjs';
import { STORE, Server } from './server.mjs';

export { KINDS, Visit, axe, inert, launch, live, provoke, screenshot } from './browser.mjs';
export { CONTEXTS, hostile, hostileOf } from './hostile.mjs';
export { PATIENCE_MS, ROOT, STORE, Server, until } from './server.mjs';

/** How many of the last lines of the server are shown with a failure. */
const LAST_LINES = 15;

/**
 * Prepares a file of tests, and gives what declares one. `options` are those of `Server.start`;
 * `fill` puts something into the server first, and what it gives, each test gets as `filled`.
 */
export function rig({ fill = null, ...options } = {}) {
  const shared = { browser: null, server: null, filled: null };
  before(async () => {
    // One after the other: what is started is known, and ends, if the next one does not start.
    shared.browser = await launch();
    shared.server = await Server.start(options);
    shared.filled = await fill?.(shared.server);
  });
  after(async () => {
    await Promise.all([shared.browser?.close(), shared.server?.close()]);
  });
  const it = (name, body) => test(name, () => visited(name, body, shared));
  // For what is between the browser and a page: it is the same whatever the server keeps things in.
  it.once = STORE === 'embedded' ? it : () => {};
  return it;
}

async function visited(name, body, { browser, server, filled }) {
  const visit = new Visit(browser, server);
  const [open, take] = [visit.open.bind(visit), visit.take.bind(visit)];
  try {
    await body({ server, open, take, visit, filled });
    await visit.clean();
  } catch (error) {
    await explained(error, name, visit);
    throw error;
  } finally {
    await visit.close();
  }
}

/** Adds to an error what the pages looked like and what the server said. */
async function explained(error, name, visit) {
  const pictures = [];
  for (const page of visit.pages.filter((page) => !page.isClosed())) {
    const picture = screenshot(page, `failed-${name}-${pictures.length + 1}`);
    pictures.push(await picture.catch((why) => `no picture: ${why.message}`));
  }
  const said = (visit.server?.said ?? '').trimEnd().split('\n').slice(-LAST_LINES).join('\n');
  // The stack has the message in it already, and is what is printed.
  if (!(error instanceof Error)) return;
  error.stack += `\n\npictures: ${pictures.join(', ') || 'none'}\nthe server said last:\n${said}\n`;
}
