//! `windrow migrate`: the schema of a database, brought up to date or looked at.

use std::io::Write as _;

use windrow_store::postgres::{MIGRATIONS, Migration, Options, Postgres, Schema};

use super::place::database;
use super::{counted, runtime};

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

Servers do the same when they start, one at a time however many start at once.
Who gives servers no right to change a schema runs this as somebody who has it,
or has the output of --sql applied by psql: it takes note of itself. Steps only
go forward. A schema that is newer than this program is refused.";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let out = &mut std::io::stdout().lock();
    let Some(url) = &args.store else {
        return Ok(print_sql(&MIGRATIONS, out)?);
    };
    let options = database(url)?;
    let runtime = runtime()?;
    if args.status || args.check || args.sql {
        let schema = runtime.block_on(Postgres::schema(&options))?;
        if args.sql {
            return Ok(print_sql(&schema.pending, out)?);
        }
        if args.status {
            return Ok(print_status(&schema, out)?);
        }
        let missing = schema.missing();
        anyhow::ensure!(schema.pending.is_empty(), "the schema lacks {missing}");
        writeln!(out, "the schema is up to date")?;
        return Ok(());
    }
    let applied = runtime.block_on(migrated(&options))?;
    for Migration { number, name, .. } in &applied {
        writeln!(out, "applied step {number} ({name})")?;
    }
    match applied.len() as u64 {
        0 => writeln!(out, "the schema is up to date, nothing to do")?,
        count => writeln!(out, "{}, the schema is up to date", counted(count, "step"))?,
    }
    Ok(())
}

async fn migrated(options: &Options) -> anyhow::Result<Vec<Migration>> {
    Ok(Postgres::migrate(options).await?)
}

fn print_status(schema: &Schema, out: &mut impl std::io::Write) -> std::io::Result<()> {
    for step in &schema.applied {
        writeln!(out, "{:>4}  {:<20} {}  {}", step.number, step.name, step.checksum, step.at)?;
    }
    for step in &schema.pending {
        writeln!(out, "{:>4}  {:<20} {}  pending", step.number, step.name, step.checksum())?;
    }
    Ok(())
}

/// The steps as a script, which notes what it did as we would.
fn print_sql(steps: &[Migration], out: &mut impl std::io::Write) -> std::io::Result<()> {
    if steps.is_empty() {
        return writeln!(out, "-- the schema is up to date");
    }
    writeln!(out, "begin;\n{};", Migration::BEGIN.replace("; ", ";\n"))?;
    for step in steps {
        let (number, name, checksum) = (step.number, step.name, step.checksum());
        writeln!(
            out,
            "\n-- step {number} ({name}), checksum {checksum}\n\n{}",
            step.sql.trim_end()
        )?;
        writeln!(
            out,
            "\ninsert into windrow.migrations (number, name, checksum) \
             values ({number}, '{name}', '{checksum}');"
        )?;
    }
    writeln!(out, "\ncommit;")
}
