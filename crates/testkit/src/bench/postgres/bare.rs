//! The bare loop: a table, SKIP LOCKED, a connection per worker, prepared statements. It keeps no
//! history, knows no keys, tenants, retries or trees, and takes back no lost lease.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use tokio_postgres::{Client, Statement};

use super::contender::{Contender, Job, Outcome};
use super::ground::Ground;
use super::hands::{Hand, work};
use crate::bench::clients::{Done, Load, Maker, PAYLOAD_BYTES, PLAIN, Until, run_all};

pub(super) const NAME: &str = "bare";

const SCHEMA: &str = "
    create table jobs (
        id           bigint generated always as identity primary key,
        priority     smallint not null default 5,
        state        smallint not null default 0,
        lease_until  timestamptz,
        payload      bytea not null
    ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
    create index jobs_ready on jobs (priority desc, id) where state = 0;";

const ENQUEUE: &str = "insert into jobs (payload) select * from unnest($1::bytea[])";

const SETTLE: &str = "delete from jobs where id = any($1)";

/// Two ways to write the claim. Which is faster depends on the version and on the batch.
const CLAIMS: [(&str, &str); 2] = [
    (
        "in",
        "update jobs set state = 1, lease_until = now() + interval '5 minutes'
         where id in (select id from jobs where state = 0 order by priority desc, id
                      limit $1 for update skip locked)
         returning id, payload",
    ),
    (
        "any(array)",
        "update jobs set state = 1, lease_until = now() + interval '5 minutes'
         where id = any(array(select id from jobs where state = 0 order by priority desc, id
                              limit $1 for update skip locked))
         returning id, payload",
    ),
];

/// Where waiting items come from before a measurement.
const FILL: Load = Load { producers: 4, workers: 0, batch: 1_000 };
/// For choosing between the two claims.
const TRIAL_ITEMS: u64 = 40_000;
const TRIAL_S: f64 = 0.4;
const TRIALS: usize = 5;

pub(super) struct Bare {
    links: Vec<Arc<Link>>,
    maker: Arc<Maker>,
}

/// A connection with its statements.
struct Link {
    client: Client,
    enqueue: Statement,
    claims: [Statement; 2],
    settle: Statement,
}

impl Bare {
    pub(super) fn new() -> Bare {
        Bare { links: Vec::new(), maker: Maker::new("queue", PLAIN) }
    }

    fn link(&mut self, ground: &Ground, number: usize) -> anyhow::Result<Arc<Link>> {
        while self.links.len() <= number {
            let link = ground.runtime.block_on(Link::open(&ground.url(NAME)))?;
            self.links.push(Arc::new(link));
        }
        Ok(Arc::clone(&self.links[number]))
    }

    fn work(&mut self, ground: &Ground, job: &Job, which: usize) -> anyhow::Result<Outcome> {
        work(ground, job, |number, batch| {
            let (link, maker) = (self.link(ground, number)?, Arc::clone(&self.maker));
            Ok(BareHand { link, maker, batch, which, done: Done::default() })
        })
    }

    /// Tries both ways to claim and keeps the faster of each size.
    fn choose(&mut self, ground: &Ground) -> anyhow::Result<[usize; 2]> {
        self.create(ground)?;
        let mut chosen = [0; 2];
        for (chosen, (batch, workers)) in chosen.iter_mut().zip([(1, 16), (100, 4)]) {
            let job = Job::rate(Load { producers: 0, workers, batch }, TRIAL_S);
            let mut rates = [Vec::new(), Vec::new()];
            for _ in 0..TRIALS {
                for (which, rates) in rates.iter_mut().enumerate() {
                    self.fill(ground, TRIAL_ITEMS)?;
                    rates.push(self.work(ground, &job, which)?.round.items_per_s);
                }
            }
            let rates = rates.map(crate::bench::measure::median);
            *chosen = usize::from(rates[1] > rates[0]);
            let [first, second] = rates;
            ground.say(&format!(
                "bare claims {batch}x{workers}: `{}` {first:.0}/s, `{}` {second:.0}/s",
                CLAIMS[0].0, CLAIMS[1].0
            ));
        }
        Ok(chosen)
    }

    fn create(&mut self, ground: &Ground) -> anyhow::Result<()> {
        self.close();
        ground.fresh(NAME)?;
        ground.sql(NAME, SCHEMA).map(drop)
    }
}

impl Contender for Bare {
    fn name(&self) -> &'static str {
        NAME
    }

    fn reset(&mut self, ground: &Ground) -> anyhow::Result<()> {
        if ground.bare_claims.get().is_none() {
            ground.bare_claims.get_or_init({
                let chosen = self.choose(ground)?;
                move || chosen
            });
        }
        self.create(ground)
    }

    fn fill(&mut self, ground: &Ground, items: u64) -> anyhow::Result<()> {
        let until = Until::items(items);
        let mut hands = Vec::new();
        for number in 0..FILL.producers {
            hands.push((self.link(ground, number)?, Arc::clone(&self.maker), until.clone()));
        }
        let clients = hands.into_iter().map(|(link, maker, until)| async move {
            let mut hand = BareHand { link, maker, batch: 0, which: 0, done: Done::default() };
            while let Some(batch) = until.next(FILL.batch) {
                hand.batch = batch;
                hand.enqueue().await?;
            }
            Ok(hand.done)
        });
        run_all(&ground.runtime, clients).map(drop)
    }

    fn run(&mut self, ground: &Ground, job: &Job) -> anyhow::Result<Outcome> {
        let chosen = ground.bare_claims.get().context("reset comes first")?;
        self.work(ground, job, chosen[usize::from(job.load().batch > 1)])
    }

    fn waiting(&mut self, ground: &Ground) -> anyhow::Result<u64> {
        // Also those that are neither waiting nor gone.
        ground.count(NAME, "select count(*) from jobs")
    }

    fn close(&mut self) {
        self.links.clear();
    }
}

impl Link {
    async fn open(url: &str) -> anyhow::Result<Link> {
        let client = Ground::connect(url).await?;
        let enqueue = client.prepare(ENQUEUE).await?;
        let claims = [client.prepare(CLAIMS[0].1).await?, client.prepare(CLAIMS[1].1).await?];
        let settle = client.prepare(SETTLE).await?;
        Ok(Link { client, enqueue, claims, settle })
    }
}

struct BareHand {
    link: Arc<Link>,
    maker: Arc<Maker>,
    batch: usize,
    /// Which way to claim.
    which: usize,
    done: Done,
}

impl Hand for BareHand {
    type Held = Vec<i64>;

    async fn enqueue(&mut self) -> anyhow::Result<()> {
        let payloads = self.maker.payloads(self.batch);
        let begun = Instant::now();
        let added = self.link.client.execute(&self.link.enqueue, &[&payloads]).await?;
        self.done.enqueue.add(begun.elapsed());
        ensure!(added == self.batch as u64, "{added} rows were added");
        self.done.enqueued += added;
        Ok(())
    }

    async fn claim(&mut self) -> anyhow::Result<Option<Vec<i64>>> {
        let (claim, batch) = (&self.link.claims[self.which], self.batch as i64);
        let begun = Instant::now();
        let rows = self.link.client.query(claim, &[&batch]).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        self.done.claim.add(begun.elapsed());
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            let len = row.get::<_, &[u8]>(1).len();
            ensure!(len == PAYLOAD_BYTES, "a payload came back with {len} bytes");
            ids.push(row.get(0));
        }
        Ok(Some(ids))
    }

    async fn settle(&mut self, held: Vec<i64>) -> anyhow::Result<()> {
        let begun = Instant::now();
        let removed = self.link.client.execute(&self.link.settle, &[&held]).await?;
        self.done.settle.add(begun.elapsed());
        ensure!(removed == held.len() as u64, "{removed} rows were removed of {}", held.len());
        self.done.settled += removed;
        Ok(())
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn done(&mut self) -> &mut Done {
        &mut self.done
    }
}
