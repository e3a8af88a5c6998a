//! Verify: a store that was opened again, held against the ledger.
//!
//! Every acknowledged item is there or has a reason to be gone; what was acknowledged as ended is
//! as it ended; every acknowledged attempt is on record; payloads are what their names say;
//! parents' counts equal a recount; no name exists twice; and a request that is repeated gets its
//! first answer. Whatever was read here is durable, so from now on the ledger vouches for it too.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windrow_core::invariants::{check_item, sorted};
use windrow_core::item::Marks;
use windrow_core::ports::{Inspected, Now, Store};
use windrow_core::tally::{Share, Tally};
use windrow_core::{Answer, Item, ItemId, Request, State, Status, Timestamp};

use super::ledger::{Entry, Finding, Ledger};
use super::name::{Name, enqueue};
use crate::random::Splitmix;
use crate::suite::block_on;

/// How much of a large store is read item by item. What exists, and how it ended, is always
/// compared for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// What was touched since the last check, and so many others.
    Sample(usize),
    Everything,
}

/// What was compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    pub items: usize,
    pub read: usize,
    pub parents: usize,
    pub repeated: usize,
}

/// Compares; the first thing that is wrong is the answer.
pub fn verify<S: Store>(
    store: &S,
    ledger: &mut Ledger,
    depth: Depth,
    dice: &mut Splitmix,
    now: Timestamp,
) -> Result<Verified, Finding> {
    let mut verified = Verified::default();
    repeat_unanswered(store, ledger, now)?;
    let items = list(store)?;
    verified.items = items.len();
    for (id, entry) in &ledger.items {
        check_ending(*id, entry, items.get(id))?;
    }
    check_counts(store, &items)?;
    let mut seen = BTreeMap::new();
    for id in to_read(ledger, &items, depth, dice) {
        let inspected = read(store, id)?;
        check_item(&inspected.item);
        let name = check_body(&inspected)?;
        ledger.exists(id, name)?;
        if let Some(entry) = ledger.items.get_mut(&id) {
            check_name(id, entry, name)?;
            check_claims(entry, &inspected)?;
            entry.replaced |= entry.name != name;
            entry.name = name;
        }
        seen.insert(id, inspected);
    }
    verified.read = seen.len();
    check_keys(ledger, &items)?;
    check_pretended(ledger, &seen)?;
    verified.parents = check_parents(store, ledger, &items, &seen)?;
    verified.repeated = repeat_answered(store, ledger, dice, now)?;
    ledger.touched.clear();
    Ok(verified)
}

fn list<S: Store>(store: &S) -> Result<HashMap<ItemId, Item>, Finding> {
    let all = block_on(store.items(None, usize::MAX));
    let all = all.map_err(|error| Finding::general(format!("items cannot be listed: {error}")))?;
    Ok(all.into_iter().map(|item| (item.id, item)).collect())
}

fn read<S: Store>(store: &S, id: ItemId) -> Result<Inspected, Finding> {
    match block_on(store.inspect(id)) {
        Ok(Some(inspected)) => Ok(inspected),
        Ok(None) => Err(Finding::of(id, "it is listed and cannot be found")),
        Err(error) => Err(Finding::of(id, format!("it cannot be read: {error}"))),
    }
}

/// An acknowledged item exists or may be gone, and has ended as was acknowledged.
fn check_ending(id: ItemId, entry: &Entry, found: Option<&Item>) -> Result<(), Finding> {
    let Some(item) = found else {
        if entry.may_be_gone() {
            return Ok(());
        }
        return Err(Finding::of(id, format!("LOST: {:?} was acknowledged", entry.name)));
    };
    match entry.terminal {
        Some((lease, end)) if item.state != State::Done(end) => {
            let what = format!("{lease} ended it as {end:?}, and now it is {:?}", item.state);
            Err(Finding::of(id, what))
        }
        _ => Ok(()),
    }
}

/// What is read whole: everything touched, everything that is new, and some of the rest.
fn to_read(
    ledger: &Ledger,
    items: &HashMap<ItemId, Item>,
    depth: Depth,
    dice: &mut Splitmix,
) -> BTreeSet<ItemId> {
    let Depth::Sample(others) = depth else {
        return items.keys().copied().collect();
    };
    let known = |id: &ItemId| ledger.items.contains_key(id) && !ledger.touched.contains(id);
    let mut chosen: BTreeSet<ItemId> = items.keys().filter(|id| !known(id)).copied().collect();
    let every = (items.len() / others.max(1)).max(1);
    chosen.extend(items.keys().filter(|_| dice.below(every) == 0).copied());
    chosen
}

fn check_body(seen: &Inspected) -> Result<Name, Finding> {
    let id = seen.item.id;
    Name::check(&seen.body).map_err(|wrong| Finding::of(id, wrong))
}

/// The body is the one that was acknowledged, or a newer one of its key that was not.
fn check_name(id: ItemId, entry: &Entry, name: Name) -> Result<(), Finding> {
    if name == entry.name || name.may_have_replaced(entry.name) {
        return Ok(());
    }
    let what = format!("{:?} was acknowledged, and its body is of {name:?}", entry.name);
    Err(Finding::of(id, what))
}

/// Q4: every acknowledged claim is on record, with the number of its attempt and its ending.
fn check_claims(entry: &Entry, seen: &Inspected) -> Result<(), Finding> {
    let Inspected { item, trail, body, .. } = seen;
    let name = Name::read(&body.payload);
    // A replaced item began anew: its attempts are forgotten.
    if entry.replaced || name.is_ok_and(|name| name != entry.name) {
        return Ok(());
    }
    for claim in &entry.claims {
        let wrong = |what: String| Err(Finding::of(item.id, format!("{claim:?}: {what}")));
        if item.lease() == Some(claim.lease) {
            if item.attempts != claim.attempt {
                return wrong(format!("it has {} attempts", item.attempts));
            }
            if claim.ending.is_some() {
                return wrong("it was settled and is still held".to_owned());
            }
            continue;
        }
        match trail.under(claim.lease) {
            Some(attempt) if attempt.number != claim.attempt => {
                return wrong(format!("it is on record as number {}", attempt.number));
            }
            Some(attempt) if claim.ending.is_some_and(|ending| ending != attempt.ending) => {
                return wrong(format!("it is on record as {:?}", attempt.ending));
            }
            Some(_) => {}
            None if trail.attempts.len() >= windrow_core::limits::ATTEMPTS_KEPT => {}
            None => return wrong(format!("no such attempt: {item:?} {:?}", trail.attempts)),
        }
    }
    Ok(())
}

/// Of one key, at most one item is live and not held behind another.
fn check_keys(ledger: &Ledger, items: &HashMap<ItemId, Item>) -> Result<(), Finding> {
    let mut live: HashMap<u64, ItemId> = HashMap::new();
    for (id, item) in items {
        let Some(entry) = ledger.items.get(id) else { continue };
        let held = matches!(item.state, State::Held { .. });
        if item.is_done() || held || entry.name.key().is_none() {
            continue;
        }
        if let Some(other) = live.insert(entry.name.family(), *id) {
            return Err(Finding::of(*id, format!("its key is live a second time, in {other}")));
        }
    }
    Ok(())
}

/// The control's names exist, although nobody waited for them.
fn check_pretended(ledger: &Ledger, seen: &BTreeMap<ItemId, Inspected>) -> Result<(), Finding> {
    let there: BTreeSet<Name> =
        seen.values().filter_map(|seen| Name::read(&seen.body.payload).ok()).collect();
    let plain = |name: &&Name| name.key().is_none() && name.queue() == super::name::Queue::Kept;
    match ledger.pretended.iter().filter(plain).find(|name| !there.contains(name)) {
        Some(name) => Err(Finding::general(format!("LOST: {name:?} was acknowledged"))),
        None => Ok(()),
    }
}

/// The maintained counts equal a count of what exists.
fn check_counts<S: Store>(store: &S, items: &HashMap<ItemId, Item>) -> Result<(), Finding> {
    let known = block_on(store.counts());
    let known =
        known.map_err(|error| Finding::general(format!("items cannot be counted: {error}")))?;
    for status in Status::ALL {
        let counted = items.values().filter(|item| item.status() == status).count() as u64;
        let told: u64 = known.iter().filter(|c| c.status == status).map(|c| c.items).sum();
        if counted != told {
            let what = format!("{told} items are said to be {status}, and {counted} are");
            return Err(Finding::general(what));
        }
    }
    Ok(())
}

/// Q5, for every parent that was read: all children exist, and their recount is the tally.
fn check_parents<S: Store>(
    store: &S,
    ledger: &Ledger,
    items: &HashMap<ItemId, Item>,
    seen: &BTreeMap<ItemId, Inspected>,
) -> Result<usize, Finding> {
    let mut parents = 0;
    for (id, parent) in seen.iter().filter(|(_, seen)| seen.item.has(Marks::PARENT)) {
        let Some(known) = &parent.tally else {
            return Err(Finding::of(*id, "it has children and no counts"));
        };
        let children = block_on(store.children(*id, 0, usize::MAX));
        let children = children.map_err(|error| Finding::of(*id, error.to_string()))?;
        let entry = ledger.items.get(id);
        let want = parent_name(parent).children() as usize;
        if entry.is_some_and(|entry| entry.split) && children.len() != want {
            let what =
                format!("LOST: {} children of {want} that were acknowledged", children.len());
            return Err(Finding::of(*id, what));
        }
        let mut counted = Tally::new(known.stage, known.on_gaps);
        counted.more = known.more;
        for child in children {
            let Some(item) = items.get(&child) else {
                return Err(Finding::of(child, format!("a child of {id} that does not exist")));
            };
            let below = match item.has(Marks::PARENT) {
                true => read(store, child)?.tally,
                false => None,
            };
            let route = match seen.get(&child) {
                Some(seen) => seen.body.route.clone(),
                None => read(store, child)?.body.route,
            };
            counted.add(&Share::of(item, &route, below.as_ref()));
        }
        let (known, counted) = (sorted(known.clone()), sorted(counted));
        if known != counted {
            return Err(Finding::of(*id, format!("it counts {known:?}, a recount {counted:?}")));
        }
        parents += 1;
    }
    Ok(parents)
}

fn parent_name(parent: &Inspected) -> Name {
    Name::read(&parent.body.payload).unwrap_or(Name { root: 0, path: 0 })
}

fn ask_again<S: Store>(
    store: &S,
    names: &[Name],
    now: Timestamp,
) -> Result<Answer<windrow_core::ports::Work>, Finding> {
    let Some(first) = names.first() else { return Ok(Answer::Done) };
    let request = Request { id: Some(first.request()), command: enqueue(names) };
    let answers = block_on(store.submit(vec![request], Now::Given(now)));
    let answers = answers.map_err(|error| Finding::general(error.to_string()))?;
    answers.into_iter().next().ok_or_else(|| Finding::general("no answer"))
}

/// What nobody knows the outcome of is asked again under its request id: then it has happened once.
fn repeat_unanswered<S: Store>(
    store: &S,
    ledger: &mut Ledger,
    now: Timestamp,
) -> Result<(), Finding> {
    for (first, len) in std::mem::take(&mut ledger.unanswered) {
        let names = first.batch(len);
        let answer = ask_again(store, &names, now)?;
        let Answer::Enqueued(each) = &answer else {
            return Err(Finding::general(format!("repeated {first:?}: {answer:?}")));
        };
        let items = each.iter().map(|one| one.as_ref().ok().map(|one| (one.id, one.outcome)));
        let items = items.collect();
        ledger.take(super::ack::Ack::Enqueued { first, by_request: true, items })?;
        let again = ask_again(store, &names, now)?;
        if again != answer {
            let what = format!("repeated {first:?}: {answer:?}, then {again:?}");
            return Err(Finding::general(what));
        }
    }
    Ok(())
}

/// Some of the requests that were answered in any life get their first answer again.
fn repeat_answered<S: Store>(
    store: &S,
    ledger: &Ledger,
    dice: &mut Splitmix,
    now: Timestamp,
) -> Result<usize, Finding> {
    let newest = ledger.answered.iter().rev().take(3);
    let any = (0..5).filter_map(|_| dice.pick(&ledger.answered));
    let mut repeated = 0;
    for answered in newest.chain(any) {
        let names = answered.first.batch(answered.items.len());
        let answer = ask_again(store, &names, now)?;
        let same = match &answer {
            Answer::Enqueued(each) => each.iter().zip(&answered.items).all(|pair| match pair {
                (Ok(now), Some((id, outcome))) => (now.id, now.outcome) == (*id, *outcome),
                (Err(_), None) => true,
                _ => false,
            }),
            _ => false,
        };
        if !same {
            let what = format!("request of {:?} was answered {answered:?}", answered.first);
            return Err(Finding::general(format!("{what}, and now {answer:?}")));
        }
        repeated += 1;
    }
    Ok(repeated)
}
