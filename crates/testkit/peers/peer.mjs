// A peer of Windrow, driven line by line: a job as JSON on stdin, what became of it on stdout.
//
//   {"do":"fill","items":N}                              puts items in place
//   {"do":"rate","producers","workers","batch","seconds"}  enqueues, or claims and completes
//   {"do":"life","producers","workers","batch","items"}    items come and go until all are gone
//
// Called with the peer's name and the address of its database. Each peer is used as its manual
// advises for throughput. Payloads are texts of 256 bytes.

import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import pg from "pg";

const [name, url] = process.argv.slice(-2);
const QUEUE = "bench";
const NOISE = randomBytes(64 * 1024).toString("base64");
const FILL_BATCH = 1_000;
const POOL = 24;

let made = 0;
/** Texts that do not compress, no two in a row the same. */
function payload() {
  made += 1;
  const from = (made * 61) % (NOISE.length - 256);
  return NOISE.slice(from, from + 256);
}

const now_us = () => Number(process.hrtime.bigint() / 1000n);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Latencies of calls, in microseconds. */
class Latencies {
  all = [];
  async time(call) {
    const begun = now_us();
    const result = await call();
    this.all.push(now_us() - begun);
    return result;
  }
  told() {
    const sorted = this.all.sort((a, b) => a - b);
    const at = (part) => sorted[Math.round((sorted.length - 1) * part)] ?? 0;
    return { p50_us: at(0.5), p99_us: at(0.99), worst_us: at(1) };
  }
}

/** So many producers, each enqueuing batches while `more` says how many are next. */
async function produce(peer, producers, latencies, more) {
  let enqueued = 0;
  const one = async () => {
    for (let batch = more(); batch > 0; batch = more()) {
      const payloads = Array.from({ length: batch }, payload);
      await latencies.time(() => peer.enqueue(payloads));
      enqueued += batch;
    }
  };
  await Promise.all(Array.from({ length: producers }, one));
  return enqueued;
}

/** Hands out batches until so many items were handed out. */
function counted(items, batch) {
  let left = items;
  return () => {
    const next = Math.min(left, batch);
    left -= next;
    return next;
  };
}

const jobs = {
  async fill(peer, { items }) {
    const latencies = new Latencies();
    const enqueued = await produce(peer, 4, latencies, counted(items, FILL_BATCH));
    return { enqueued, settled: 0 };
  },

  async rate(peer, { producers, workers, batch, seconds }) {
    const latencies = new Latencies();
    const begun = now_us();
    if (workers > 0) {
      return await peer.consume({ workers, batch, seconds, latencies });
    }
    const until = begun + seconds * 1e6;
    const more = () => (now_us() < until ? batch : 0);
    const enqueued = await produce(peer, producers, latencies, more);
    return { enqueued, settled: 0, seconds: (now_us() - begun) / 1e6, ...latencies.told() };
  },

  async life(peer, { producers, workers, batch, items }) {
    const latencies = new Latencies();
    const begun = now_us();
    const [enqueued, told] = await Promise.all([
      produce(peer, producers, new Latencies(), counted(items, batch)),
      peer.consume({ workers, batch, items, latencies }),
    ]);
    return { ...told, enqueued, seconds: (now_us() - begun) / 1e6 };
  },
};

/** graphile-worker: its own runner. Batches are its local queue and its batched completion. */
async function graphile() {
  const { Logger, makeWorkerUtils, run } = await import("graphile-worker");
  const logger = new Logger(() => () => {});
  const pool = new pg.Pool({ connectionString: url, max: POOL + 2 });
  const fatal = (error) => {
    throw error;
  };
  pool.on("error", fatal);
  pool.on("connect", (client) => client.on("error", fatal));
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  const held = "select count(*)::int as held from graphile_worker._private_jobs where locked_at is not null";
  return {
    async enqueue(payloads) {
      if (payloads.length === 1) {
        await utils.addJob("task", { data: payloads[0] });
      } else {
        await utils.addJobs(payloads.map((data) => ({ identifier: "task", payload: { data } })));
      }
    },
    async consume({ workers, batch, seconds, items }) {
      let begun = 0;
      let settled = 0;
      let all_settled;
      const everything = new Promise((resolve) => (all_settled = resolve));
      const task = (payload) => {
        begun ||= now_us();
        if (payload.data.length !== 256) throw new Error("a payload came back changed");
        settled += 1;
        if (settled === items) all_settled();
      };
      const batches = { localQueue: { size: 500 }, completeJobBatchDelay: 0 };
      const worker = {
        concurrentJobs: batch > 1 ? POOL : workers,
        pollInterval: 20,
        ...(batch > 1 ? batches : {}),
      };
      const runner = await run({
        pgPool: pool,
        logger,
        taskList: { task },
        noHandleSignals: true,
        preset: { worker },
      });
      await (items ? everything : sleep(seconds * 1e3));
      await runner.stop();
      // It does not wait for the last completions.
      while ((await pool.query(held)).rows[0].held > 0) await sleep(1);
      return { enqueued: 0, settled, seconds: (now_us() - begun) / 1e6 };
    },
  };
}

/** pg-boss: fetch and complete, without its own polling and maintenance. */
async function boss() {
  const { default: PgBoss } = await import("pg-boss");
  const boss = new PgBoss({ connectionString: url, max: POOL, supervise: false, schedule: false });
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue(QUEUE);
  return {
    async enqueue(payloads) {
      if (payloads.length === 1) {
        await boss.send(QUEUE, { data: payloads[0] });
      } else {
        await boss.insert(payloads.map((data) => ({ name: QUEUE, data: { data } })));
      }
    },
    async consume({ workers, batch, seconds, items, latencies }) {
      const begun = now_us();
      const until = items ? Infinity : begun + seconds * 1e6;
      let settled = 0;
      const one = async () => {
        while (now_us() < until && settled < (items ?? Infinity)) {
          const fetch_begun = now_us();
          const fetched = await boss.fetch(QUEUE, { batchSize: batch });
          if (fetched.length === 0) {
            await sleep(1);
            continue;
          }
          latencies.all.push(now_us() - fetch_begun);
          for (const job of fetched) {
            if (job.data.data.length !== 256) throw new Error("a payload came back changed");
          }
          await boss.complete(QUEUE, fetched.map((job) => job.id));
          settled += fetched.length;
        }
      };
      await Promise.all(Array.from({ length: workers }, one));
      return { enqueued: 0, settled, seconds: (now_us() - begun) / 1e6, ...latencies.told() };
    },
  };
}

const peer = await { "graphile-worker": graphile, "pg-boss": boss }[name]();
const tell = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
tell({ ready: name });
for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  tell(await jobs[job.do](peer, job));
}
process.exit(0);
