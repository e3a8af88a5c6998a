// The real server for browser tests: on free ports, spoken to over HTTP, ended with the tests.
//
// WINDROW_BIN names the program. Its store is a new directory, or, if WINDROW_TEST_POSTGRES_URL
// names a server of PostgreSQL, a new database there. `cargo xtask console` sets both.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const INBOX = join(ROOT, 'examples/inbox');

/** How long anything may take on a machine that does other things too. */
export const PATIENCE_MS = 60_000;

/** Where servers keep things: `embedded` or `postgres`. */
export const STORE = process.env.WINDROW_TEST_POSTGRES_URL ? 'postgres' : 'embedded';

const TYPES = {
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.md': 'text/markdown',
  '.html': 'text/html',
  '.txt': 'text/plain',
};

/** Asks until there is an answer. The only way in which tests wait. */
export async function until(what, look, patienceMs = PATIENCE_MS) {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < deadline, `${what} did not come within ${patienceMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export class Server {
  /**
   * Starts one and waits until it is ready.
   *
   * `env` are settings such as `WINDROW_DOCUMENTS__ENABLED`, `flags` more words of `serve`. With
   * `tokens` it asks for one; `admin` is then an admin's, which all calls here show.
   */
  static async start({ env = {}, flags = [], tokens = false } = {}) {
    const server = new Server();
    server.dir = mkdtempSync(join(tmpdir(), 'windrow-console-'));
    server.place = STORE === 'postgres' ? newDatabase() : ['--data-dir', join(server.dir, 'data')];
    Object.assign(server, { env, flags, admin: null, process: null, port: 0, said: '' });
    if (tokens) {
      server.admin = randomBytes(16).toString('hex');
      const file = join(server.dir, 'token');
      writeFileSync(file, server.admin, { mode: 0o600 });
      server.env = { ...env, WINDROW_AUTH__TOKEN_FILE: file };
    }
    await server.startAgain();
    return server;
  }

  /** Where it is, for programs and for browsers. */
  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** On what it kept, at the same address, after `stop` or `kill`. */
  async startAgain() {
    const words = ['serve', '--listen', `127.0.0.1:${this.port}`, '--rpc-listen', 'off'];
    const [program, ...rest] = endsWithUs([binary(), ...words, ...this.place, ...this.flags]);
    const child = spawn(program, rest, {
      cwd: this.dir,
      env: { ...withoutOurs(), ...this.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process = child;
    this.ended = new Promise((resolve) => child.once('exit', resolve));
    const before = this.said.length;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => (this.said += text));
    }
    const found = await until('the start of the server', () => {
      const said = this.said.slice(before);
      assert.equal(child.exitCode, null, `the server did not start:\n${said}`);
      return /"address":"127\.0\.0\.1:(\d+)"|http:\/\/127\.0\.0\.1:(\d+)/.exec(said);
    });
    this.port = Number(found[1] ?? found[2]);
    await until('a server that is ready', async () => (await fetch(`${this.url}/readyz`)).ok);
  }

  /** Tells it to stop, and waits until it has. */
  async stop() {
    await this.#end('SIGTERM');
  }

  /** As the power goes. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** Ends it and removes what it kept. */
  async close() {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async #end(signal) {
    this.process?.kill(signal);
    if (this.process) await this.ended;
    this.process = null;
  }

  /** One request under `/api/v1`. A refusal is an error that says it; `status` expects one. */
  async call(method, path, body, { token = this.admin, headers = {}, status = null } = {}) {
    const isBytes = body instanceof Uint8Array;
    const type = isBytes || body === undefined ? {} : { 'content-type': 'application/json' };
    const auth = token ? { authorization: `Bearer ${token}` } : {};
    const reply = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { ...type, ...auth, ...headers },
      body: isBytes || body === undefined ? body : JSON.stringify(body),
    });
    const text = await reply.text();
    const isExpected = status === null ? reply.ok : reply.status === status;
    assert.ok(isExpected, `${method} ${path}: ${reply.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  async get(path, options) {
    return this.call('GET', path, undefined, options);
  }

  /** Enqueues one item, or an array of them, and answers what the server does: ids. */
  async enqueue(queue, items = {}) {
    return this.call('POST', `/queues/${encodeURIComponent(queue)}/items`, items);
  }

  /** Claims up to `max` items of a queue: `{lease, items}`. `more` are more fields of a claim. */
  async claim(queue, max = 1, more = {}) {
    return this.call('POST', '/claims', { queues: [queue], worker: 'rig', max, ...more });
  }

  /** Settles all that a claim gave alike: `complete`, `fail` with `{error}`, and so on. */
  async settle(claim, outcome = 'complete', more = {}) {
    const items = claim.items.map(({ id }) => ({ id, outcome, ...more }));
    return this.call('POST', `/leases/${claim.lease}/settle`, { items });
  }

  /** Enqueues one item, claims it and settles it, and gives its id. */
  async done(queue, item = {}, outcome = 'complete', more = {}) {
    const { id } = await this.enqueue(queue, item);
    await this.settle(await this.claim(queue), outcome, more);
    return id;
  }

  /** Adds a file of examples/inbox by its name, or one of one's own: `{name, bytes, type}`. */
  async add(file, { collection = null } = {}) {
    const { name, bytes, type } = typeof file === 'string' ? inInbox(file) : file;
    const query = new URLSearchParams({ name, ...(collection ? { collection } : {}) });
    const headers = { 'content-type': type ?? TYPES[extname(name)] ?? 'text/plain' };
    return this.call('POST', `/documents?${query}`, Buffer.from(bytes), { headers });
  }

  /** Waits until a document is no longer being built, and gives it: `live`, or `failed`. */
  async built(added) {
    return until(`document ${added.id}`, async () => {
      const document = await this.get(`/documents/${added.id}`);
      return ['live', 'failed'].includes(document.state) && document;
    });
  }

  /** Adds all of examples/inbox (or these files of it), waits for each, and gives them by name. */
  async inbox(names = readdirSync(INBOX)) {
    const added = await Promise.all(names.map((name) => this.add(name)));
    const built = await Promise.all(added.map((one) => this.built(one)));
    return Object.fromEntries(built.map((document) => [document.name, document]));
  }

  /** A new token: `viewer`, `producer`, `worker`, `operator` or `admin`. Needs `tokens`. */
  async token(role, more = {}) {
    const made = await this.call('POST', '/tokens', { role, ...more });
    return made.token;
  }
}

function inInbox(name) {
  return { name: basename(name), bytes: readFileSync(join(INBOX, name)) };
}

function binary() {
  const path = process.env.WINDROW_BIN;
  const how = '`cargo xtask console` sets it, or set it to target/debug/windrow';
  assert.ok(path, `WINDROW_BIN must name the windrow binary: ${how}`);
  assert.ok(existsSync(path), `WINDROW_BIN names ${path}, which is not there`);
  return path;
}

/** A command that is killed when we end, however we end. */
function endsWithUs(words) {
  const setpriv = '/usr/bin/setpriv';
  return existsSync(setpriv) ? [setpriv, '--pdeathsig', 'KILL', ...words] : words;
}

/** What the environment says of servers is not meant for the one that we start. */
function withoutOurs() {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('WINDROW_'));
  return Object.fromEntries(kept);
}

let databases = 0;

/** Makes an empty database, the same on every machine, and says where it is. It goes with all. */
function newDatabase() {
  const name = `console_${process.pid}_${databases++}`;
  const like = "template template0 encoding 'UTF8' locale 'C'";
  const psql = process.env.WINDROW_TEST_PSQL ?? 'psql';
  const server = process.env.WINDROW_TEST_POSTGRES_URL;
  const create = ['--no-psqlrc', '--quiet', '--dbname', server, '--command'];
  execFileSync(psql, [...create, `create database ${name} ${like}`], { stdio: 'inherit' });
  const url = new URL(server);
  url.pathname = `/${name}`;
  return ['--store', url.href];
}
