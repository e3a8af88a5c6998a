//! `windrow migrate`: the schema of a database, brought up to date or looked at. There are two: the
//! queue's, and that of the catalog, in which servers keep what they know of documents.

use std::io::Write as _;

use anyhow::Context as _;
use windrow_pipelines::catalog::Postgres as Catalog;
use windrow_pipelines::postgres::{self, State};
use windrow_store::postgres::{Applied, MIGRATIONS, Migration, Options, Postgres, Schema};

use super::place::database;
use super::{counted, runtime};
use crate::documents::reached;

/// What the schemas are called.
const QUEUE: &str = "windrow";
const CATALOG: &str = "windrow_catalog";

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The database, such as postgres://user@host/database.
    #[arg(long, value_name = "URL", required_unless_present = "sql")]
    store: Option<String>,
    /// Change nothing; fail if steps are missing.
    #[arg(long, conflicts_with_all = ["status", "sql"])]
    check: bool,
    /// Change nothing; list the steps that are there and those that are missing.
    #[arg(long, conflicts_with = "sql")]
    status: bool,
    /// Change nothing; print the SQL of the missing steps, or of all if no database is given.
    #[arg(long)]
    sql: bool,
}

const EXAMPLES: &str = "\
Examples:
  windrow migrate --store postgres://windrow@db.example/queue
  windrow migrate --store postgres://windrow@db.example/queue --check
  windrow migrate --sql | less

Servers do the same when they start, one at a time however many start at once,
and make the catalog of documents with the first one.
Who gives servers no right to change a schema runs this as somebody who has it,
or has the output of --sql applied by psql: it takes note of itself. Steps only
go forward. A schema that is newer than this program is refused.";

/// One of the two schemas, as both are shown.
struct Part {
    name: &'static str,
    /// What comes before the first step.
    begin: String,
    schema: Schema,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    let Some(url) = &args.store else {
        let none = Schema { applied: Vec::new(), pending: MIGRATIONS.to_vec() };
        return Ok(print_sql(&[none.into(), Catalog::no_schema().into()], out)?);
    };
    let options = database(url)?;
    let runtime = runtime()?;
    if args.status || args.check || args.sql {
        let parts = runtime.block_on(parts(&options))?;
        if args.sql {
            return Ok(print_sql(&parts, out)?);
        }
        if args.status {
            return Ok(print_status(&parts, out)?);
        }
        let missing: Vec<String> = parts.iter().filter_map(Part::missing).collect();
        anyhow::ensure!(missing.is_empty(), "the schema lacks {}", missing.join(", "));
        writeln!(out, "the schema is up to date")?;
        return Ok(());
    }
    let queue = runtime.block_on(Postgres::migrate(&options))?;
    for Migration { number, name, .. } in &queue {
        writeln!(out, "applied step {number} ({name})")?;
    }
    let catalog = runtime.block_on(Catalog::migrate(reached(&options)?));
    let catalog = catalog.context("the queue's schema is up to date, and the catalog's is not")?;
    for (number, step) in &catalog {
        writeln!(out, "applied step {number} ({}) of {CATALOG}", step.name)?;
    }
    match (queue.len() + catalog.len()) as u64 {
        0 => writeln!(out, "the schema is up to date, nothing to do")?,
        count => writeln!(out, "{}, the schema is up to date", counted(count, "step"))?,
    }
    Ok(())
}

/// How far both schemas of a database are.
async fn parts(options: &Options) -> anyhow::Result<[Part; 2]> {
    let queue = Postgres::schema(options).await?;
    let catalog = Catalog::schema(reached(options)?).await?;
    Ok([queue.into(), catalog.into()])
}

impl From<Schema> for Part {
    fn from(schema: Schema) -> Part {
        Part { name: QUEUE, begin: Migration::BEGIN.to_owned(), schema }
    }
}

impl From<State> for Part {
    fn from(State { schema, begin, applied, pending }: State) -> Part {
        let applied =
            applied.into_iter().map(|postgres::Applied { number, name, checksum, at }| Applied {
                number,
                name,
                checksum,
                at,
            });
        let pending = pending.into_iter();
        let pending =
            pending.map(|(number, postgres::Step { name, sql })| Migration { number, name, sql });
        let steps = Schema { applied: applied.collect(), pending: pending.collect() };
        Part { name: schema, begin, schema: steps }
    }
}

impl Part {
    /// Steps that are missing, in words.
    fn missing(&self) -> Option<String> {
        match (self.schema.pending.is_empty(), self.name) {
            (true, _) => None,
            (false, QUEUE) => Some(self.schema.missing()),
            (false, name) => Some(format!("{} of {name}", self.schema.missing())),
        }
    }
}

fn print_status(parts: &[Part], out: &mut impl std::io::Write) -> std::io::Result<()> {
    for Part { name: of, schema, .. } in parts {
        for Applied { number, name, checksum, at } in &schema.applied {
            writeln!(out, "{of:<15} {number:>4}  {name:<20} {checksum}  {at}")?;
        }
        for step in &schema.pending {
            let (number, name, checksum) = (step.number, step.name, step.checksum());
            writeln!(out, "{of:<15} {number:>4}  {name:<20} {checksum}  pending")?;
        }
    }
    Ok(())
}

/// The steps as a script, which notes what it did as we would.
fn print_sql(parts: &[Part], out: &mut impl std::io::Write) -> std::io::Result<()> {
    if parts.iter().all(|part| part.schema.pending.is_empty()) {
        return writeln!(out, "-- the schema is up to date");
    }
    writeln!(out, "begin;")?;
    for Part { name: of, begin, schema } in parts {
        if !schema.pending.is_empty() {
            writeln!(out, "{};", begin.replace("; ", ";\n"))?;
        }
        for step in &schema.pending {
            let (number, name, checksum) = (step.number, step.name, step.checksum());
            let sql = step.sql.trim_end();
            writeln!(out, "\n-- step {number} ({name}) of {of}, checksum {checksum}\n\n{sql}")?;
            writeln!(
                out,
                "\ninsert into {of}.migrations (number, name, checksum) \
                 values ({number}, '{name}', '{checksum}');\n"
            )?;
        }
    }
    writeln!(out, "commit;")
}
