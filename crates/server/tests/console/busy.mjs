// A server with something of everything in it, so that no page is empty.
//
// Items in every status and of several queues, one that nobody works on, a tree, schedules, a
// watched folder, documents of which one page could not be read, and who did what.

import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { until } from './server.mjs';

/** Every status that an item can have. */
export const STATUSES = ['pending', 'processing', 'completed', 'failed', 'cancelled', 'skipped'];

/** What is said of the page that is torn. */
export const TORN = 'the third page is torn';

/**
 * Settings of a server to which the third page of every PDF is torn, and what mends it.
 *
 * It reads with a program of ours that stands before the real one.
 */
export function torn() {
  const folder = mkdtempSync(join(tmpdir(), 'windrow-torn-'));
  const mended = join(folder, 'mended');
  const real = process.env.PATH;
  const lines = [
    '#!/bin/sh',
    `if [ "$2" = 3 ] && [ ! -e ${mended} ]; then echo '${TORN}' >&2; exit 3; fi`,
    `PATH='${real}' exec pdftotext "$@"`,
  ];
  writeFileSync(join(folder, 'pdftotext'), `${lines.join('\n')}\n`);
  chmodSync(join(folder, 'pdftotext'), 0o755);
  const mend = () => writeFileSync(mended, '');
  return { env: { PATH: `${folder}${delimiter}${real}` }, mend };
}

/** Fills a server, and says what is where. */
export async function busy(server) {
  // First, and until it is at rest: its pages would push the items off the first page of the queue.
  const documents = await server.inbox();
  const items = await ofItems(server);
  await server.call('PUT', '/schedules/nightly', { cron: '0 3 * * *', item: { queue: 'reports' } });
  const source = await ofFolder(server);
  const tree = await ofTree(server);
  const counted = { verb: 'retry', filter: 'status:failed queue:thumbs', dry_run: true };
  const operation = await server.call('POST', '/operations', counted);
  await server.call('POST', '/workers/thumbs-2/drain');
  return { ...items, ...tree, source, operation, documents };
}

/** Items of a queue that is worked on, and of one that is not. */
async function ofItems(server) {
  const thumb = (number) => ({
    key: `holiday/${number}.jpg`,
    kind: 'thumbnail',
    source_type: 'file',
    source_info: `holiday/${number}.jpg`,
    payload: { path: `holiday/${number}.jpg`, width: 320 },
  });
  const thumbs = Array.from({ length: 40 }, (_, number) => thumb(number));
  await server.enqueue('thumbs', thumbs);
  const worker = { worker: 'thumbs-1' };
  const made = await server.claim('thumbs', 24, worker);
  await server.settle(made, 'complete', { result: { width: 320 } });
  const failing = await server.claim('thumbs', 6, worker);
  await server.settle(failing, 'fail', { error: 'no space left on device' });
  await server.settle(await server.claim('thumbs', 2, worker), 'skip', { reason: 'no picture' });
  const running = await server.claim('thumbs', 3, { worker: 'thumbs-2' });
  const mail = { kind: 'mail', source_type: 'email', source_info: 'Invoice 2031 from Acme' };
  const error = 'the attachment is encrypted';
  await server.done('mail', { ...mail, key: 'a' }, 'fail', { error });
  const [cancelled] = await server.enqueue('mail', [{ ...mail, key: 'b' }, { ...mail, key: 'c' }]);
  await server.call('POST', `/queue/${cancelled.id}/cancel`);
  const stuck = await server.enqueue('reports', { kind: 'report', source_info: 'Quarter 3' });
  const ids = (claim) => claim.items.map(({ id }) => id);
  return { failed: ids(failing), running: ids(running), cancelled: cancelled.id, stuck: stuck.id };
}

/** An item that was split into others. */
async function ofTree(server) {
  const route = [{ name: 'unpack', below: ['row'] }, 'sum'];
  const { id } = await server.enqueue('imports', { source_info: 'prices.csv', route });
  const claim = await server.claim('imports');
  const row = { kind: 'row', route: ['row'] };
  const child = (ordinal) => ({ ...row, ordinal, ref: `row ${ordinal}`, payload: ordinal });
  await server.settle(claim, 'split', { children: [1, 2, 3].map(child) });
  await server.settle(await server.claim('imports', 1));
  return { parent: id };
}

/** People and places that are named together, for a graph that is worth a look. */
const ENGINE = `# The engine

Ada Lovelace met Charles Babbage in London. Charles Babbage showed her the Difference Engine.

Mary Somerville introduced Ada Lovelace to Charles Babbage. Mary Somerville lived in London.

Luigi Menabrea heard Charles Babbage in Turin. Luigi Menabrea wrote of the Analytical Engine.

Ada Lovelace translated Luigi Menabrea. Charles Babbage never built the Analytical Engine.

Michael Faraday wrote to Ada Lovelace. Charles Dickens knew Ada Lovelace and Charles Babbage.
`;

/** A watched folder with one file in it. */
async function ofFolder(server) {
  const path = join(server.dir, 'papers');
  mkdirSync(path);
  writeFileSync(join(path, 'engine.md'), ENGINE);
  await server.call('PUT', '/sources/papers', { path });
  return until('a look at the folder', async () => {
    const source = await server.get('/sources/papers');
    const { documents } = await server.get('/documents?collection=papers');
    return source.state === 'watching' && documents[0]?.state === 'live' && source;
  });
}

/** Every page of a busy server, by a name for pictures: where it is, and what must stand in it. */
export function places({ failed, parent, documents, operation }) {
  const paper = documents['lighthouse-handbook.pdf'].id;
  const item = `/queue/${failed[0]}`;
  return {
    overview: ['/', 'no space left on device'],
    queue: ['/queue', 'Invoice 2031 from Acme'],
    'queue-filtered': ['/queue?filter=status%3Afailed%20queue%3Athumbs', 'no space left on device'],
    item: [item, 'Why it is failed'],
    'item-raw': [`${item}?tab=raw`, '"width": 320'],
    'item-extracted': [`${item}?tab=extracted`, 'No result yet.'],
    'item-error': [`${item}?tab=error`, '"no space left on device"'],
    'item-events': [`${item}?tab=events`, 'enqueued'],
    'item-tree': [`/queue/${parent}`, 'Below it'],
    operation: [`/operations/${operation.id}`, '6 items match'],
    monitor: ['/admin/queue-monitor', 'At most in a minute'],
    documents: ['/documents', 'lighthouse-handbook.pdf'],
    document: [`/documents/${paper}`, 'Failed pages'],
    'document-page': [`/documents/${paper}/pages/1`, 'Chunk 1'],
    'document-page-failed': [`/documents/${paper}/pages/3`, TORN],
    graph: ['/documents/graph?collection=papers', 'Ada Lovelace'],
    search: ['/search?q=spare%20burner%20of%20the%20lamp', 'lighthouse-handbook.pdf'],
    sources: ['/sources', 'What is gone'],
    workers: ['/workers', 'thumbs-2'],
    schedules: ['/schedules', 'daily at 03:00'],
    system: ['/admin/system', 'By the clock'],
    settings: ['/admin/settings', 'Retention'],
    'sign-in': ['/sign-in', 'Token'],
  };
}
