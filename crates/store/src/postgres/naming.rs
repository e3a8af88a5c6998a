//! Giving numbers to names and routes, apart from any batch: one that nobody uses harms nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio_postgres::{Client, GenericClient};
use windrow_core::command::{Command, Outcome, Request};
use windrow_core::item::Body;
use windrow_core::route::Route;

use super::Error;
use super::load::unpack;
use super::names::Names;
use crate::embedded::codec::Pack as _;

/// The names and routes that a batch may need numbers for.
#[derive(Debug, Default)]
struct Wanted {
    texts: BTreeSet<Arc<str>>,
    routes: Vec<Arc<Route>>,
}

impl Wanted {
    fn body(&mut self, body: &Body) {
        self.texts.extend([&body.tenant, &body.queue, &body.kind].map(Arc::clone));
        self.route(&body.route);
    }

    fn route(&mut self, route: &Arc<Route>) {
        self.texts.extend(route.stages.iter().map(|stage| Arc::clone(&stage.name)));
        if !self.routes.contains(route) {
            self.routes.push(Arc::clone(route));
        }
    }

    fn request(&mut self, request: &Request) {
        match &request.command {
            Command::Enqueue(items) => items.iter().for_each(|new| self.body(&new.body)),
            Command::Settle { items, .. } => {
                for (_, outcome) in items {
                    match outcome {
                        Outcome::Complete { spawn, .. } => {
                            spawn.iter().for_each(|new| self.body(&new.body));
                        }
                        Outcome::Split { children, .. } => {
                            for child in children {
                                self.texts.insert(Arc::clone(&child.kind));
                                self.route(&child.route);
                            }
                        }
                        _ => {}
                    }
                }
            }
            Command::Configure { queue, .. } => {
                self.texts.insert(Arc::clone(queue));
            }
            Command::Claim(claim) => {
                let asked = [&claim.queues, &claim.stages, &claim.kinds, &claim.tenants];
                self.texts.extend(asked.into_iter().flatten().map(Arc::clone));
            }
            _ => {}
        }
    }
}

/// Makes sure that every name of a batch has a number that this server knows.
pub(super) async fn number(
    client: &Client,
    names: &RwLock<Names>,
    batch: &[Request],
) -> Result<(), Error> {
    let mut wanted = Wanted::default();
    batch.iter().for_each(|request| wanted.request(request));
    {
        let names = names.read();
        wanted.texts.retain(|text| names.find(text).is_none());
        wanted.routes.retain(|route| names.find_route(route).is_none());
    }
    if !wanted.texts.is_empty() {
        let texts: Vec<&str> = wanted.texts.iter().map(|text| &**text).collect();
        let insert = "insert into windrow.names (name) select unnest($1::text[]) \
                      on conflict do nothing";
        client.execute(insert, &[&texts]).await?;
        let select = "select no, name from windrow.names where name = any ($1)";
        let rows = client.query(select, &[&texts]).await?;
        let mut names = names.write();
        for row in rows {
            names.add(row.get::<_, i32>(0) as u32, row.get::<_, &str>(1).into());
        }
    }
    if !wanted.routes.is_empty() {
        let packed: Vec<Vec<u8>> = wanted.routes.iter().map(pack).collect();
        let insert = "insert into windrow.routes (route) select unnest($1::bytea[]) \
                      on conflict do nothing";
        client.execute(insert, &[&packed]).await?;
        let select = "select no, route from windrow.routes where route = any ($1)";
        let rows = client.query(select, &[&packed]).await?;
        add_routes(&mut names.write(), &rows)?;
    }
    Ok(())
}

fn pack(route: &Arc<Route>) -> Vec<u8> {
    let mut bytes = Vec::new();
    route.put(&mut bytes);
    bytes
}

fn add_routes(names: &mut Names, rows: &[tokio_postgres::Row]) -> Result<(), Error> {
    for row in rows {
        names.add_route(row.get::<_, i32>(0) as u32, unpack(row.get(1))?);
    }
    Ok(())
}

/// Learns names and routes by the numbers that another server gave them.
pub(super) async fn learn(
    client: &impl GenericClient,
    names: &RwLock<Names>,
    texts: &Vec<i32>,
    routes: &Vec<i32>,
) -> Result<(), Error> {
    if !texts.is_empty() {
        let sql = "select no, name from windrow.names where no = any ($1)";
        let rows = client.query(sql, &[texts]).await?;
        let mut names = names.write();
        for row in rows {
            names.add(row.get::<_, i32>(0) as u32, row.get::<_, &str>(1).into());
        }
    }
    if !routes.is_empty() {
        let sql = "select no, route from windrow.routes where no = any ($1)";
        let rows = client.query(sql, &[routes]).await?;
        add_routes(&mut names.write(), &rows)?;
        // The stages of a route have numbers of their own.
        let stages: BTreeSet<Arc<str>> = {
            let names = names.read();
            let known = routes.iter().filter_map(|no| names.route(*no as u32));
            known.flat_map(|route| route.stages.iter().map(|s| Arc::clone(&s.name))).collect()
        };
        let stages: Vec<&str> = stages.iter().map(|stage| &**stage).collect();
        let sql = "select no, name from windrow.names where name = any ($1)";
        let rows = client.query(sql, &[&stages]).await?;
        let mut names = names.write();
        for row in rows {
            names.add(row.get::<_, i32>(0) as u32, row.get::<_, &str>(1).into());
        }
    }
    Ok(())
}
