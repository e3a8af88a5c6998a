//! Giving numbers to names, routes and lanes, apart from any batch: one that nobody uses harms
//! nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio_postgres::Row;
use windrow_core::command::{Command, Outcome, Request};
use windrow_core::item::Body;
use windrow_core::route::Route;
use windrow_core::rules::notify::{DELIVERIES, DELIVERY};
use windrow_core::text::name;

use super::Error;
use super::load::unpack;
use super::names::{LaneName, Names};
use super::pool::Used;
use super::tx::step;
use crate::embedded::codec::Pack as _;

/// The names and routes that a batch needs numbers for and that have none yet.
#[derive(Debug, Default)]
pub(super) struct Wanted<'a> {
    texts: BTreeSet<Arc<str>>,
    routes: Vec<Arc<Route>>,
    last: Option<&'a Body>,
}

impl<'a> Wanted<'a> {
    pub(super) fn body(&mut self, names: &Names, body: &'a Body) {
        // Most items of a batch are alike.
        let is_alike = |last: &Body| {
            (&last.tenant, &last.queue, &last.kind) == (&body.tenant, &body.queue, &body.kind)
                && Arc::ptr_eq(&last.route, &body.route)
        };
        if self.last.is_some_and(is_alike) {
            return;
        }
        self.last = Some(body);
        for text in [&body.tenant, &body.queue, &body.kind] {
            self.text(names, text);
        }
        self.route(names, &body.route);
    }

    /// What the rules will refuse gets no number: the database might refuse it too, and with it
    /// everything else.
    pub(super) fn text(&mut self, names: &Names, text: &Arc<str>) {
        if names.find(text).is_none() && name("name", text, false).is_ok() {
            self.texts.insert(Arc::clone(text));
        }
    }

    fn route(&mut self, names: &Names, route: &Arc<Route>) {
        let is_new = names.find_route(route).is_none() && !self.routes.contains(route);
        if is_new && route.validate().is_ok() {
            self.routes.push(Arc::clone(route));
        }
        route.stages.iter().for_each(|stage| self.text(names, &stage.name));
    }

    /// What deliveries are called, which rules may create that no command names.
    pub(super) fn deliveries(&mut self, names: &Names) {
        for text in [DELIVERIES, DELIVERY] {
            self.text(names, &text.into());
        }
        self.route(names, &Route::single());
    }

    fn request(&mut self, names: &Names, request: &'a Request) {
        match &request.command {
            Command::Enqueue(items) => items.iter().for_each(|new| self.body(names, &new.body)),
            Command::Settle { items, .. } => {
                for (_, outcome) in items {
                    match outcome {
                        Outcome::Complete { spawn, .. } => {
                            spawn.iter().for_each(|new| self.body(names, &new.body));
                        }
                        Outcome::Split { children, .. } => {
                            for child in children {
                                self.text(names, &child.kind);
                                self.route(names, &child.route);
                            }
                        }
                        _ => {}
                    }
                }
            }
            Command::Configure { queue, .. } | Command::Introduce { queue, .. } => {
                self.text(names, queue);
            }
            Command::Notify { queue, .. } => {
                self.text(names, queue);
                self.deliveries(names);
            }
            Command::Claim(claim) => {
                let asked = [&claim.queues, &claim.stages, &claim.kinds, &claim.tenants];
                asked.into_iter().flatten().for_each(|text| self.text(names, text));
            }
            _ => {}
        }
    }
}

/// Whether this server knows what deliveries are called.
pub(super) fn knows_deliveries(names: &Names) -> bool {
    let mut wanted = Wanted::default();
    wanted.deliveries(names);
    wanted.texts.is_empty() && wanted.routes.is_empty()
}

/// Makes sure that it does.
pub(super) async fn number_deliveries(client: &Used, names: &RwLock<Names>) -> Result<(), Error> {
    let mut wanted = Wanted::default();
    wanted.deliveries(&names.read());
    number_all(client, names, wanted).await
}

/// Makes sure that every name and route of a batch has a number that this server knows.
pub(super) async fn number(
    client: &Used,
    names: &RwLock<Names>,
    batch: &[Request],
) -> Result<(), Error> {
    let wanted = {
        let names = names.read();
        let mut wanted = Wanted::default();
        batch.iter().for_each(|request| wanted.request(&names, request));
        wanted
    };
    number_all(client, names, wanted).await
}

/// Makes sure that what is wanted has numbers that this server knows.
pub(super) async fn number_all(
    client: &Used,
    names: &RwLock<Names>,
    wanted: Wanted<'_>,
) -> Result<(), Error> {
    let Wanted { texts, routes, .. } = wanted;
    if !texts.is_empty() {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let insert = "insert into windrow.names (name) select unnest($1::text[]) \
                      on conflict do nothing";
        client.query(step!(insert, texts.clone())).await?;
        let select = "select no, name from windrow.names where name = any ($1)";
        let rows = client.query(step!(select, texts)).await?;
        add_texts(&mut names.write(), &rows);
    }
    if !routes.is_empty() {
        let packed: Vec<Vec<u8>> = routes.iter().map(pack).collect();
        let insert = "insert into windrow.routes (route) select unnest($1::bytea[]) \
                      on conflict do nothing";
        client.query(step!(insert, packed.clone())).await?;
        let select = "select no, route from windrow.routes where route = any ($1)";
        let rows = client.query(step!(select, packed)).await?;
        add_routes(&mut names.write(), &rows)?;
    }
    Ok(())
}

/// Makes sure that lanes have numbers. Other servers learn that there are new ones.
pub(super) async fn number_lanes(
    client: &Used,
    names: &RwLock<Names>,
    lanes: &BTreeSet<LaneName>,
) -> Result<(), Error> {
    let column = |of: fn(&LaneName) -> u32| -> Vec<i32> {
        lanes.iter().map(|lane| of(lane) as i32).collect()
    };
    let (queues, stages) = (column(|lane| lane.queue), column(|lane| lane.stage));
    let kinds = column(|lane| lane.kind);
    let insert = "with new as (\
           insert into windrow.lanes (queue, stage_name, kind) \
           select * from unnest($1::int[], $2::int[], $3::int[]) \
           on conflict do nothing returning no) \
         update windrow.store set configured = configured + 1 where exists (select from new)";
    client.query(step!(insert, queues, stages, kinds)).await?;
    learn_lanes(client, names).await
}

/// Learns all lanes, and the names in them.
pub(super) async fn learn_lanes(client: &Used, names: &RwLock<Names>) -> Result<(), Error> {
    let all = "select no, queue, stage_name, kind from windrow.lanes";
    let rows = client.query(step!(all)).await?;
    let no = |row: &Row, at: usize| row.get::<_, i32>(at) as u32;
    let unknown: Vec<i32> = {
        let names = names.read();
        let numbers = rows.iter().flat_map(|row| (1..4).map(|at| no(row, at)));
        numbers.filter(|no| names.text(*no).is_none()).map(|no| no as i32).collect()
    };
    learn(client, names, &unknown, &[]).await?;
    let mut names = names.write();
    for row in &rows {
        let lane = LaneName { queue: no(row, 1), stage: no(row, 2), kind: no(row, 3) };
        names.add_lane(no(row, 0), lane);
    }
    Ok(())
}

fn pack(route: &Arc<Route>) -> Vec<u8> {
    let mut bytes = Vec::new();
    route.put(&mut bytes);
    bytes
}

fn add_texts(names: &mut Names, rows: &[Row]) {
    for row in rows {
        names.add(row.get::<_, i32>(0) as u32, row.get::<_, &str>(1).into());
    }
}

fn add_routes(names: &mut Names, rows: &[Row]) -> Result<(), Error> {
    for row in rows {
        names.add_route(row.get::<_, i32>(0) as u32, unpack(row.get(1))?);
    }
    Ok(())
}

/// Learns names and routes by the numbers that another server gave them.
pub(super) async fn learn(
    client: &Used,
    names: &RwLock<Names>,
    texts: &[i32],
    routes: &[i32],
) -> Result<(), Error> {
    if !texts.is_empty() {
        let sql = "select no, name from windrow.names where no = any ($1)";
        let rows = client.query(step!(sql, texts.to_vec())).await?;
        add_texts(&mut names.write(), &rows);
    }
    if !routes.is_empty() {
        let sql = "select no, route from windrow.routes where no = any ($1)";
        let rows = client.query(step!(sql, routes.to_vec())).await?;
        add_routes(&mut names.write(), &rows)?;
        // The stages of a route have numbers of their own.
        let stages: BTreeSet<Arc<str>> = {
            let names = names.read();
            let known = routes.iter().filter_map(|no| names.route(*no as u32));
            known.flat_map(|route| route.stages.iter().map(|s| Arc::clone(&s.name))).collect()
        };
        let stages: Vec<String> = stages.iter().map(ToString::to_string).collect();
        let sql = "select no, name from windrow.names where name = any ($1)";
        let rows = client.query(step!(sql, stages)).await?;
        add_texts(&mut names.write(), &rows);
    }
    Ok(())
}
