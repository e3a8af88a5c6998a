//! A database: whether it answers, keeps what it acknowledges, and has room for our connections.

use windrow_core::Timestamp;
use windrow_pipelines::catalog::postgres::Rights;
use windrow_store::postgres::{Options, Postgres, Schema, Server};

use super::{Finding, failed, machine, ok, problem, warn};
use crate::cli::show::now;
use crate::documents::rights_in;

/// The oldest that is supported.
const OLDEST: i32 = 150_000;
/// Connections beyond ours that should be left for others.
const SPARE: i64 = 5;

pub(super) async fn examine(options: &Options) -> Vec<Finding> {
    let begun = now();
    let server = match Postgres::server(options).await {
        Ok(server) => server,
        Err(error) => {
            let fix = "see that it runs, that the address, the user and the password are right, \
                       and that it lets this machine in (pg_hba.conf)";
            return vec![problem("database", error.to_string(), fix)];
        }
    };
    let mut found = of(&server, begun, now());
    match Postgres::schema(options).await {
        Ok(schema) => {
            found.push(schema_of(&schema));
            if !schema.applied.is_empty() {
                found.push(catalog(options).await);
            }
        }
        Err(error) => {
            found.push(problem("store", error.to_string(), "use the windrow that made it"));
        }
    }
    found
}

fn schema_of(schema: &Schema) -> Finding {
    let steps = schema.applied.len();
    match (schema.applied.is_empty(), schema.pending.is_empty()) {
        (true, _) => {
            warn("store", "there is no queue in it yet", "`windrow migrate` or `serve` makes one")
        }
        (false, false) => {
            let said = format!("the schema lacks {}", schema.missing());
            warn("store", said, "`windrow migrate` brings it up to date, and so does `serve`")
        }
        (false, true) => ok("store", format!("the schema is up to date, with {steps} steps")),
    }
}

/// Whether documents can be kept in it, by this role.
async fn catalog(options: &Options) -> Finding {
    let rights = match rights_in(options).await {
        Ok(rights) => rights,
        Err(error) => return failed("catalog", &error.into()),
    };
    let Rights { role, is_there, may_make, may_use } = rights;
    match (is_there, may_make, may_use) {
        (true, _, true) => ok("catalog", "this role may use the catalog of documents"),
        (true, _, false) => problem(
            "catalog",
            format!("the role {role} may not use the catalog: documents are refused"),
            format!(
                "as its owner, `grant usage on schema windrow_catalog to {role}; grant select, \
                 insert, update, delete on all tables in schema windrow_catalog to {role}`"
            ),
        ),
        (false, true, _) => {
            ok("catalog", "there is no catalog of documents yet; the first document makes it")
        }
        (false, false, _) => warn(
            "catalog",
            format!("there is no catalog of documents, and the role {role} may not make one"),
            "run `windrow migrate` as the owner of the schema, and grant what \
             docs/operating/postgres.md says",
        ),
    }
}

/// What a server is set to, judged.
pub(super) fn of(server: &Server, begun: Timestamp, now: Timestamp) -> Vec<Finding> {
    let version = &server.version;
    let mut found = vec![match server.version_number >= OLDEST {
        true => ok("database", format!("PostgreSQL {version} answers")),
        false => {
            let said = format!("it is PostgreSQL {version}");
            problem("database", said, "use version 15 or newer")
        }
    }];
    found.push(durable(server));
    found.push(match server.autovacuum {
        true => ok("autovacuum", "it is on"),
        false => problem(
            "autovacuum",
            "it is off: dead rows stay in the way of every claim",
            "set autovacuum = on, and reload",
        ),
    });
    found.push(connections(server));
    if server.held_back.is_empty() {
        found.push(ok("vacuum", "nothing holds it back"));
    }
    for said in &server.held_back {
        let fix = "end the session, transaction or slot that it names";
        found.push(warn("vacuum", said, fix));
    }
    let asked_ms = now.since(begun);
    found.push(machine::apart("the database's", server.now, now, asked_ms));
    found
}

/// Whether what it acknowledged survives a crash.
fn durable(server: &Server) -> Finding {
    if !server.fsync {
        let said = "fsync is off: a crash loses or destroys what was acknowledged, and windrow \
                    refuses to use it";
        return problem("durability", said, "set fsync = on, and restart PostgreSQL");
    }
    if !server.full_page_writes {
        let said = "full_page_writes is off: a crash can destroy pages that were being written";
        let fix = "set full_page_writes = on, unless the file system never tears a page";
        return warn("durability", said, fix);
    }
    match server.synchronous_commit.as_str() {
        "off" => {
            let said = "synchronous_commit is off: a crash loses what was acknowledged in its last \
                        moments";
            warn("durability", said, "set synchronous_commit = on, and reload")
        }
        how => ok(
            "durability",
            format!("fsync and full_page_writes are on, synchronous_commit is {how}"),
        ),
    }
}

fn connections(server: &Server) -> Finding {
    let (most, used, wanted) = (server.connections_max, server.connections, server.wanted as i64);
    let said = format!("{used} of {most} are used, and a server of ours opens {wanted}");
    // Those that are there may be ours.
    if wanted + SPARE > most {
        let fix = "raise max_connections, or give connections= in the address a smaller number";
        return problem("connections", said, fix);
    }
    if used + wanted > most {
        let fix = "end what is not needed, raise max_connections, or share a pooler";
        return warn("connections", said, fix);
    }
    ok("connections", said)
}
