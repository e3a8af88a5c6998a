//! The book: which tokens there are, and whose request this is.
//!
//! Tokens are notes on the shelf `tokens`. A server keeps them in memory. What it changes itself it
//! reads back before it answers, so that a token is revoked at once there. Other servers of the
//! same database read the shelf a few times a second, and let nobody in by what they read more than
//! a second ago. If the shelf cannot be read, nobody is let in.
//!
//! A server is open, as if everybody were an admin, while it listens on its own machine only and
//! there has never been a token. A revoked token stays on the shelf: else whoever revokes the last
//! one would open the server to every program of the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, watch};
use windrow_core::note::{Expects, Note, WriteNote};
use windrow_core::ports::{Store as _, StoreError};
use windrow_core::{Refusal, Timestamp};
use windrow_engine::{Clock as _, Failure};

use super::caller::By;
use super::token::{Fresh, Hash, Kept, Wanted, parts};
use super::{Caller, Denied, Guarded, Role};
use crate::store::{AnyStore, Queue};

const SHELF: &str = "tokens";
/// Tokens that there may be at once.
const TOKENS_MAX: usize = 10_000;
/// How old what is known of the tokens may be on a store that others write to.
const KNOWN_FOR_MS: u64 = 1_000;
/// How often it is read again, so that it is rarely that old.
const READ_EVERY: Duration = Duration::from_millis(400);
/// How long somebody waits to be let in while the shelf cannot be read.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// How exactly it is known when a token was last used, and how often it is written.
const USED_WITHIN_MS: u64 = 3_600_000;
const USED_EVERY: Duration = Duration::from_secs(60);
/// A revoked token leaves the list after so long, when another one is made.
const REVOKED_KEPT_MS: u64 = 90 * 86_400_000;
/// What a session calls the token that an operator brought along. No token has such an id.
const GIVEN: &str = "(given)";
/// The shortest secret that an operator may bring along.
const GIVEN_MIN: usize = 32;

/// Why the first token is no other: as soon as there is one, whoever has none may do nothing.
const FIRST: &str = "the first token must be an admin's of all tenants: from then on every request \
                     needs a token, and only an admin makes others. Make one with --role admin and \
                     without --tenant first, and this one by it";

/// The tokens of a store, as one server knows them.
#[derive(Debug)]
pub(crate) struct Book {
    queue: Arc<Queue>,
    /// Whoever reaches a server that asks for no token.
    anybody: Caller,
    /// An admin's token that the operator brought along, and that is on no shelf.
    given: Option<(Hash, Caller)>,
    /// The secret that runs the declared workers, and opens nothing else.
    secret: Option<(Hash, Caller)>,
    /// Other machines can reach the server.
    is_exposed: bool,
    known: watch::Sender<Arc<Known>>,
    /// When they were read.
    read_at_ms: AtomicU64,
    /// One reads at a time, so that what was read later is known later.
    reading: Mutex<()>,
}

/// Tokens by id.
type Known = HashMap<Arc<str>, Entry>;

#[derive(Clone, Debug)]
struct Entry {
    version: u64,
    kept: Arc<Kept>,
    hash: Option<Hash>,
    used_ms: Arc<AtomicU64>,
}

impl Entry {
    /// Whoever shows this token, at this moment.
    fn caller(&self, id: &Arc<str>, now: Timestamp) -> Caller {
        self.used_ms.fetch_max(now.0, Ordering::Relaxed);
        Caller {
            name: Arc::clone(&self.kept.name),
            role: self.kept.role,
            tenant: self.kept.tenant.clone(),
            by: By::Token(Arc::clone(id)),
        }
    }
}

impl Book {
    /// Reads the tokens of a store.
    pub(crate) async fn open(
        queue: Arc<Queue>,
        given: Option<&str>,
        secret: Option<&str>,
        is_exposed: bool,
    ) -> Result<Book, Denied> {
        let book = Book {
            queue,
            anybody: Caller::admin("(anybody)", By::Nothing),
            given: given.map(|text| (Hash::of(text), Caller::admin("(token file)", By::Given))),
            secret: secret.map(|text| (Hash::of(text), Caller::scheduler())),
            is_exposed,
            known: watch::Sender::default(),
            read_at_ms: AtomicU64::new(0),
            reading: Mutex::default(),
        };
        book.read().await?;
        Ok(book)
    }

    /// Whether an operator brought a token along, which is never taken away.
    pub(crate) fn has_given(&self) -> bool {
        self.given.is_some()
    }

    /// What is wrong with a token that an operator brings along.
    pub(crate) fn check_given(text: &str) -> Result<(), String> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        match text.len() {
            0 => Err("it is empty".into()),
            _ if !is_plain => Err("it has other characters than printable ASCII".into()),
            len if len < GIVEN_MIN => {
                Err(format!("it has {len} characters; at least {GIVEN_MIN}, so nobody guesses it"))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is any token at all.
    pub(crate) fn has_tokens(&self) -> bool {
        self.given.is_some() || !self.known.borrow().is_empty()
    }

    fn is_open(&self) -> bool {
        !self.is_exposed && !self.has_tokens()
    }

    /// Whose request this is, by the token that it shows.
    pub(crate) async fn authenticate(&self, shown: Option<&str>) -> Result<Caller, Denied> {
        let known = self.known().await?;
        self.recognise(&known, shown)
    }

    /// Begins a session in a browser with a token.
    pub(crate) async fn begin_session(
        &self,
        guarded: &Guarded,
        shown: &str,
    ) -> Result<String, Denied> {
        let known = self.known().await?;
        let caller = self.recognise(&known, Some(shown))?;
        let (id, hash) = match (&caller.by, &self.given) {
            (By::Token(id), _) => (&**id, known.get(id).and_then(|entry| entry.hash)),
            (By::Given, Some((hash, _))) => (GIVEN, Some(*hash)),
            // An open server asks nobody who they are.
            (By::Given | By::Nothing, _) => return Err(Denied::WrongToken),
        };
        let hash = hash.ok_or(Denied::WrongToken)?;
        Ok(guarded.sealing().begin(id, &hash, self.queue.clock().now()))
    }

    /// Whose session this is.
    pub(crate) async fn authenticate_session(
        &self,
        guarded: &Guarded,
        session: &str,
    ) -> Result<Caller, Denied> {
        let known = self.known().await?;
        if self.is_open() {
            return Ok(self.anybody.clone());
        }
        let now = self.queue.clock().now();
        let hash_of = |id: &str| match (id, &self.given) {
            (GIVEN, Some((hash, _))) => Some(*hash),
            (id, _) => known.get(id).filter(|entry| entry.kept.is_live(now))?.hash,
        };
        let id = guarded.sealing().open(session, now, hash_of).ok_or(Denied::WrongToken)?;
        match (id, &self.given) {
            (GIVEN, Some((_, caller))) => Ok(caller.clone()),
            (id, _) => {
                let (id, entry) = known.get_key_value(id).ok_or(Denied::WrongToken)?;
                Ok(entry.caller(id, now))
            }
        }
    }

    /// The same by what was known last, for whoever only watches: how a server is must be seen also
    /// while its store cannot be read.
    pub(crate) fn authenticate_watcher(&self, shown: Option<&str>) -> Result<Caller, Denied> {
        let known = Arc::clone(&self.known.borrow());
        self.recognise(&known, shown)
    }

    fn recognise(&self, known: &Known, shown: Option<&str>) -> Result<Caller, Denied> {
        if self.is_open() {
            return Ok(self.anybody.clone());
        }
        let shown = shown.ok_or(Denied::NoToken)?;
        if let Some((hash, caller)) = &self.given
            && hash.is(&Hash::of(shown))
        {
            return Ok(caller.clone());
        }
        let (id, secret) = parts(shown).ok_or(Denied::WrongToken)?;
        let (id, entry) = known.get_key_value(id).ok_or(Denied::WrongToken)?;
        let now = self.queue.clock().now();
        let is_right = entry.hash.is_some_and(|hash| hash.is(&Hash::of(secret)));
        if !is_right || !entry.kept.is_live(now) {
            return Err(Denied::WrongToken);
        }
        Ok(entry.caller(id, now))
    }

    /// The same for what the workers' secret opens: that, or a token. Whoever shows neither is let
    /// in only by a server that is open and has no such secret.
    pub(crate) async fn authenticate_worker(&self, shown: Option<&str>) -> Result<Caller, Denied> {
        let Some((hash, caller)) = &self.secret else { return self.authenticate(shown).await };
        if shown.is_some_and(|shown| hash.is(&Hash::of(shown))) {
            return Ok(caller.clone());
        }
        match self.authenticate(shown).await? {
            Caller { by: By::Nothing, .. } if shown.is_none() => Err(Denied::NoToken),
            Caller { by: By::Nothing, .. } => Err(Denied::WrongToken),
            caller => Ok(caller),
        }
    }

    /// Waits until a caller would be let in no more. Whatever lasts longer than a moment ends then.
    pub(crate) async fn ended(&self, caller: &Caller) {
        let mut known = self.known.subscribe();
        loop {
            let expires = {
                let known = known.borrow_and_update();
                match &caller.by {
                    By::Token(id) => match known.get(id) {
                        Some(entry) if entry.kept.is_live(self.queue.clock().now()) => {
                            entry.kept.expires_ms.map(Timestamp)
                        }
                        _ => return,
                    },
                    By::Nothing if !known.is_empty() => return,
                    By::Nothing | By::Given => None,
                }
            };
            let expired = self.queue.clock().sleep_until(expires.unwrap_or(Timestamp::NEVER));
            tokio::select! {
                changed = known.changed() => if changed.is_err() { return },
                () = expired, if expires.is_some() => {}
            }
        }
    }

    /// The tokens by id.
    pub(crate) async fn list(&self) -> Result<Vec<(Arc<str>, Arc<Kept>)>, Denied> {
        let known = self.read().await?;
        let used = |entry: &Entry| {
            let used_ms = Some(entry.used_ms.load(Ordering::Relaxed)).filter(|ms| *ms > 0);
            Arc::new(Kept { used_ms, ..Kept::clone(&entry.kept) })
        };
        let all = known.iter().map(|(id, entry)| (Arc::clone(id), used(entry)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(id, kept)| (kept.created_ms, Arc::clone(id)));
        Ok(all)
    }

    /// Makes a token. Its text is in the answer and nowhere else.
    pub(crate) async fn create(&self, wanted: Wanted) -> Result<Fresh, Denied> {
        let now = self.queue.clock().now();
        wanted.check(now)?;
        let known = self.read().await?;
        self.forget_old(&known, now).await?;
        if known.len() >= TOKENS_MAX {
            let why = format!("there are {TOKENS_MAX} already; revoke some");
            return Err(Refusal::invalid("tokens", why).into());
        }
        if !self.has_tokens() && (wanted.role != Role::Admin || wanted.tenant.is_some()) {
            return Err(Refusal::invalid("role", FIRST).into());
        }
        let fresh = Fresh::new(wanted, now)?;
        self.put(&fresh.id, Expects::Nothing, Some(&fresh.kept)).await?;
        self.read().await?;
        Ok(fresh)
    }

    /// Ends a token for good. Nothing if there is none, or it was ended before.
    pub(crate) async fn revoke(&self, id: &str) -> Result<Option<Arc<Kept>>, Denied> {
        loop {
            let known = self.read().await?;
            let Some(entry) = known.get(id) else { return Ok(None) };
            if entry.kept.revoked_ms.is_some() {
                return Ok(None);
            }
            let mut kept = Kept::clone(&entry.kept);
            kept.revoke(self.queue.clock().now());
            match self.put(id, Expects::Version(entry.version), Some(&kept)).await {
                Ok(()) => {
                    self.read().await?;
                    return Ok(Some(Arc::new(kept)));
                }
                Err(Failure::Refused(Refusal::Changed { .. })) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Takes every token away as if there had never been one, which opens servers on this machine.
    pub(crate) async fn clear(&self) -> Result<usize, Denied> {
        let known = self.read().await?;
        for id in known.keys() {
            self.put(id, Expects::Anything, None).await?;
        }
        self.read().await?;
        Ok(known.len())
    }

    /// Keeps up with what other servers write, and writes down which tokens are in use, for ever.
    pub(crate) async fn run(&self) {
        let mut used = tokio::time::interval(USED_EVERY);
        let mut read = tokio::time::interval(READ_EVERY);
        loop {
            // What fails here is tried again in a moment; whoever cannot wait reads for himself.
            tokio::select! {
                _ = read.tick(), if self.is_shared() => {
                    let _read = self.read().await;
                }
                _ = used.tick() => {
                    let _written = self.write_used(USED_WITHIN_MS).await;
                }
            }
        }
    }

    /// Writes when tokens were last used, before the server stops.
    pub(crate) async fn close(&self) {
        // What cannot be written now is lost, and does no harm.
        let _written = self.write_used(1).await;
    }

    /// Writes when tokens were last used, of those whose note is older than that by so much.
    async fn write_used(&self, older_ms: u64) -> Result<(), Denied> {
        let known = Arc::clone(&self.known.borrow());
        for (id, Entry { version, kept, used_ms, .. }) in known.iter() {
            let used_ms = used_ms.load(Ordering::Relaxed);
            if used_ms < kept.used_ms.unwrap_or(0) + older_ms || kept.revoked_ms.is_some() {
                continue;
            }
            let used = Kept { used_ms: Some(used_ms), ..Kept::clone(kept) };
            // Only over what we know: a token that was revoked meanwhile stays revoked.
            match self.put(id, Expects::Version(*version), Some(&used)).await {
                Ok(()) | Err(Failure::Refused(Refusal::Changed { .. })) => {}
                Err(failure) => return Err(failure.into()),
            }
            self.read().await?;
        }
        Ok(())
    }

    async fn forget_old(&self, known: &Known, now: Timestamp) -> Result<(), Failure> {
        let is_old = |entry: &Entry| {
            entry.kept.revoked_ms.is_some_and(|ms| now.0.saturating_sub(ms) > REVOKED_KEPT_MS)
        };
        for (id, entry) in known.iter().filter(|(_, entry)| is_old(entry)) {
            self.put(id, Expects::Version(entry.version), None).await?;
        }
        Ok(())
    }

    async fn put(&self, id: &str, expects: Expects, kept: Option<&Kept>) -> Result<(), Failure> {
        let body = kept.map(|kept| serde_json::to_vec(kept).unwrap_or_default().into());
        let write = WriteNote { shelf: SHELF.into(), name: id.into(), expects, body };
        self.queue.note(write).await.map(drop)
    }

    /// Whether others write to the store as well.
    fn is_shared(&self) -> bool {
        matches!(self.queue.store(), AnyStore::Postgres(_))
    }

    /// The tokens, as they were a second ago at most.
    async fn known(&self) -> Result<Arc<Known>, Denied> {
        if self.is_fresh() {
            return Ok(Arc::clone(&self.known.borrow()));
        }
        let reading = async {
            let alone = self.reading.lock().await;
            // Somebody else may have read it meanwhile.
            if self.is_fresh() {
                Ok(Arc::clone(&self.known.borrow()))
            } else {
                self.look(&alone).await
            }
        };
        let slow =
            || StoreError::NotApplied("the store does not say which tokens there are".into());
        let known = tokio::time::timeout(READ_WITHIN, reading).await;
        known.unwrap_or_else(|_| Err(slow().into()))
    }

    /// Whether what is known is new enough to let somebody in by it.
    fn is_fresh(&self) -> bool {
        let read_at = Timestamp(self.read_at_ms.load(Ordering::Acquire));
        !self.is_shared() || self.queue.clock().now().since(read_at) < KNOWN_FOR_MS
    }

    async fn read(&self) -> Result<Arc<Known>, Denied> {
        self.look(&self.reading.lock().await).await
    }

    /// Reads the shelf, alone.
    async fn look(&self, _alone: &MutexGuard<'_, ()>) -> Result<Arc<Known>, Denied> {
        let read_at = self.queue.clock().now();
        let notes = self.queue.store().notes(SHELF).await?;
        let before = Arc::clone(&self.known.borrow());
        let known: Known = notes.into_iter().map(|note| entry(note, &before)).collect();
        let is_same = |(id, now): (&Arc<str>, &Entry)| {
            before.get(id).is_some_and(|was| was.version == now.version)
        };
        // Who waits for a change is not woken by each look.
        if known.len() != before.len() || !known.iter().all(is_same) {
            self.known.send_replace(Arc::new(known));
        }
        self.read_at_ms.store(read_at.0, Ordering::Release);
        Ok(Arc::clone(&self.known.borrow()))
    }
}

/// A token from its note. One that cannot be read opens nothing, and is there all the same.
fn entry(note: Note, before: &Known) -> (Arc<str>, Entry) {
    if let Some(same) = before.get(&note.name).filter(|was| was.version == note.version) {
        return (note.name, same.clone());
    }
    let kept: Kept = serde_json::from_slice(&note.body).unwrap_or_else(|_| Kept::unreadable());
    let used_ms = before.get(&note.name).map_or_else(Arc::default, |was| Arc::clone(&was.used_ms));
    used_ms.fetch_max(kept.used_ms.unwrap_or(0), Ordering::Relaxed);
    let hash = kept.hash();
    (note.name, Entry { version: note.version, kept: Arc::new(kept), hash, used_ms })
}
