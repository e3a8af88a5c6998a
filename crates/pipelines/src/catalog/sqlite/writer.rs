//! The writer: one thread that does what has gathered, commits once, then answers.
//!
//! One that fails undoes nothing of the others: if it had written something, everything is undone
//! and done again, each in a savepoint of its own. That is seldom, and savepoints are dear: the
//! full-text index writes what it has gathered at each. While one commit waits for the disk the
//! next work gathers; there is no timer. After a commit that the disk refused nothing is written
//! any more, because nobody knows what the disk has.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::super::error::CatalogError;

/// So much work shares a commit at most, so that the first does not wait for ever for the last.
const TOGETHER_MAX: usize = 256;

/// The thread, and the way to it. It ends when this is dropped, after the work that was sent.
#[derive(Debug)]
pub(super) struct Writer {
    work: Option<Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(connection: Connection) -> Result<Writer, CatalogError> {
        let (work, gathered) = channel();
        let named = std::thread::Builder::new().name("catalog-writer".into());
        let thread = named.spawn(move || Desk { connection, broken: None }.write_all(&gathered));
        let thread = Some(thread.map_err(CatalogError::transient)?);
        Ok(Writer { work: Some(work), thread })
    }

    /// Hands in a piece of work, which may be done twice, and gives what will be answered after its
    /// commit.
    pub(super) fn hand_in<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, CatalogError>> {
        let (tell, told) = oneshot::channel();
        let task = Task { run, result: None, tell };
        // If the thread is gone, so is `tell`, and whoever waits is told that.
        let _sent = self.work.as_ref().map(|work| work.send(Box::new(task)));
        let closed = || Err(CatalogError::transient("it has closed"));
        Box::pin(async move { told.await.unwrap_or_else(|_| closed()) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _panics_are_caught = thread.join();
        }
    }
}

/// A piece of work.
trait Work: Send {
    /// Does it; false if what it wrote must be undone.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Says how it ended, given how the commit ended.
    fn answer(self: Box<Self>, committed: Result<(), CatalogError>);
}

struct Task<T, F> {
    run: F,
    result: Option<Result<T, CatalogError>>,
    tell: oneshot::Sender<Result<T, CatalogError>>,
}

impl<T, F> Work for Task<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, CatalogError> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let ended = catch_unwind(AssertUnwindSafe(|| (self.run)(connection)));
        let panicked = || Err(CatalogError::bad("a mistake in the program: the write panicked"));
        let result = ended.unwrap_or_else(|_| panicked());
        let is_good = result.is_ok();
        self.result = Some(result);
        is_good
    }

    fn answer(self: Box<Self>, committed: Result<(), CatalogError>) {
        let result = match (self.result, committed) {
            // What it says itself tells more than that the others failed too.
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(result), Ok(())) => result,
            (None, Ok(())) => Err(CatalogError::transient("it was not done")),
        };
        let _nobody_may_wait = self.tell.send(result);
    }
}

/// What the thread has.
struct Desk {
    connection: Connection,
    /// Why nothing is written any more.
    broken: Option<CatalogError>,
}

impl Desk {
    fn write_all(mut self, gathered: &Receiver<Box<dyn Work>>) {
        while let Ok(first) = gathered.recv() {
            let mut together = vec![first];
            together.extend(gathered.try_iter().take(TOGETHER_MAX - 1));
            self.write(together);
        }
    }

    fn write(&mut self, together: Vec<Box<dyn Work>>) {
        let mut waiting = together.into_iter();
        while waiting.len() > 0 {
            let mut done: Vec<Box<dyn Work>> = Vec::new();
            let committed = self.commit(&mut waiting, &mut done);
            for work in done {
                work.answer(committed.clone());
            }
            if let Err(error) = committed {
                // If it could not even begin, the rest would only wait as long again.
                waiting.by_ref().for_each(|work| work.answer(Err(error.clone())));
            }
        }
    }

    /// One transaction over as much as can be done.
    fn commit(
        &mut self,
        waiting: &mut std::vec::IntoIter<Box<dyn Work>>,
        done: &mut Vec<Box<dyn Work>>,
    ) -> Result<(), CatalogError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.connection.execute_batch("begin immediate")?;
        if let Err(error) = self.run_all(waiting, done) {
            // A full disk undoes the whole transaction, with what went well in it.
            self.undo();
            return Err(error);
        }
        let committed = self.connection.execute_batch("commit");
        committed.map_err(|error| {
            let is_of_disk = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
            let said = CatalogError::from(error);
            if is_of_disk {
                let why =
                    format!("the disk refused a commit, so that it must be opened again: {said}");
                self.broken = Some(CatalogError::transient(why));
            }
            self.undo();
            said
        })
    }

    /// Does everything that waits. An error is one of the transaction, not of some work.
    fn run_all(
        &mut self,
        waiting: &mut std::vec::IntoIter<Box<dyn Work>>,
        done: &mut Vec<Box<dyn Work>>,
    ) -> Result<(), CatalogError> {
        while let Some(mut work) = waiting.next() {
            let changes = self.connection.total_changes();
            let is_good = work.run(&self.connection);
            done.push(work);
            self.is_in_transaction()?;
            if is_good || self.connection.total_changes() == changes {
                continue;
            }
            self.connection.execute_batch("rollback; begin immediate")?;
            for work in done.iter_mut() {
                self.in_savepoint(&mut **work)?;
            }
            for mut work in waiting.by_ref() {
                let ended = self.in_savepoint(&mut *work);
                done.push(work);
                ended?;
            }
        }
        Ok(())
    }

    fn is_in_transaction(&self) -> Result<(), CatalogError> {
        match self.connection.is_autocommit() {
            true => Err(CatalogError::transient("the database undid the transaction")),
            false => Ok(()),
        }
    }

    /// An error is one of the transaction, not of the work.
    fn in_savepoint(&mut self, work: &mut dyn Work) -> Result<(), CatalogError> {
        self.connection.prepare_cached("savepoint work")?.execute([])?;
        let is_good = work.run(&self.connection);
        self.is_in_transaction()?;
        if !is_good {
            self.connection.prepare_cached("rollback to work")?.execute([])?;
        }
        self.connection.prepare_cached("release work")?.execute([])?;
        Ok(())
    }

    fn undo(&mut self) {
        if !self.connection.is_autocommit() {
            let _it_is_undone_when_it_closes = self.connection.execute_batch("rollback");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(connection: Connection) -> Writer {
        connection.execute_batch("create table if not exists t (n integer, b blob)").unwrap();
        Writer::start(connection).unwrap()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn insert(db: &Connection, n: i64) -> Result<(), CatalogError> {
        db.execute("insert into t (n) values (?1)", [n])?;
        Ok(())
    }

    fn sum(writer: &Writer) -> i64 {
        let sum = |db: &Connection| {
            Ok(db.query_row("select coalesce(sum(n), 0) from t", [], |row| row.get(0))?)
        };
        block_on(writer.hand_in(sum)).unwrap()
    }

    #[test]
    fn work_that_fails_or_panics_undoes_itself_and_nothing_else() {
        let writer = writer(Connection::open_in_memory().unwrap());
        // Holds the thread until everything has gathered, so that all shares one transaction.
        let (go, wait) = channel::<()>();
        let mut wait = Some(wait);
        let held = writer.hand_in(move |_| match wait.take() {
            Some(wait) => wait.recv().map_err(CatalogError::transient),
            // Done again, because one of the others is undone.
            None => Ok(()),
        });
        let good = writer.hand_in(|db| insert(db, 1));
        let bad = writer.hand_in(|db| {
            insert(db, 10)?;
            Err::<(), _>(CatalogError::bad("no"))
        });
        let panics = writer.hand_in(|db| {
            insert(db, 100)?;
            assert!(db.is_autocommit(), "a test of panics");
            Ok(())
        });
        let last = writer.hand_in(|db| insert(db, 1_000));
        go.send(()).unwrap();
        block_on(async {
            assert_eq!(held.await, Ok(()));
            assert_eq!(good.await, Ok(()));
            assert_eq!(bad.await, Err(CatalogError::bad("no")));
            assert!(
                matches!(panics.await, Err(CatalogError::Bad { why }) if why.contains("panicked"))
            );
            assert_eq!(last.await, Ok(()));
        });
        assert_eq!(sum(&writer), 1_001);
    }

    #[test]
    fn a_full_database_is_transient_and_work_goes_on_when_there_is_room() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("pragma page_size = 4096; vacuum").unwrap();
        let writer = writer(connection);
        let pages = |max: u32| {
            move |db: &Connection| {
                let sql = format!("pragma max_page_count = {max}");
                Ok(db.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
            }
        };
        block_on(writer.hand_in(pages(8))).unwrap();
        let large = |db: &Connection| {
            db.execute("insert into t (n, b) values (1, zeroblob(1000000))", [])?;
            Ok(())
        };
        let full = block_on(writer.hand_in(large));
        assert!(matches!(full, Err(CatalogError::Transient { .. })), "{full:?}");
        assert_eq!(sum(&writer), 0);
        block_on(writer.hand_in(pages(1_000_000))).unwrap();
        block_on(writer.hand_in(large)).unwrap();
        assert_eq!(sum(&writer), 1);
    }

    #[test]
    fn what_another_process_locks_is_transient() {
        let file = std::env::temp_dir().join(format!("windrow-writer-{}.db", std::process::id()));
        let connection = Connection::open(&file).unwrap();
        connection.busy_timeout(std::time::Duration::ZERO).unwrap();
        let writer = writer(connection);
        let other = Connection::open(&file).unwrap();
        other.execute_batch("begin exclusive").unwrap();
        let locked = block_on(writer.hand_in(|db| insert(db, 1)));
        assert!(matches!(locked, Err(CatalogError::Transient { .. })), "{locked:?}");
        other.execute_batch("rollback").unwrap();
        block_on(writer.hand_in(|db| insert(db, 1))).unwrap();
        assert_eq!(sum(&writer), 1);
        drop(writer);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn what_was_handed_in_is_done_before_it_closes() {
        let file = std::env::temp_dir().join(format!("windrow-closing-{}.db", std::process::id()));
        let writer = writer(Connection::open(&file).unwrap());
        let answers: Vec<_> = (0..1_000).map(|_| writer.hand_in(|db| insert(db, 1))).collect();
        drop(writer);
        block_on(async {
            for answer in answers {
                assert_eq!(answer.await, Ok(()));
            }
        });
        let db = Connection::open(&file).unwrap();
        let sum: i64 = db.query_row("select sum(n) from t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 1_000);
        std::fs::remove_file(file).unwrap();
    }
}
