//! Finding: lists by filter and by text, page by page, and what operators said about queues.

use windrow_core::Status::{Cancelled, Completed, Failed, Pending, Processing, Skipped};
use windrow_core::command::{Command, NewItem, RetryMode};
use windrow_core::find::{Configured, Filter, Page, Text};
use windrow_core::ports::Store;
use windrow_core::settings::Settings;
use windrow_core::{Answer, ItemId, Status};

use super::bed::{Bed, block_on, scope};
use super::draft::{self, Draft as _, QUEUE, fail, item, routed, skip};
use super::sight::walk;

/// The ids of everything that a filter admits, newest first.
#[track_caller]
fn found<S: Store>(bed: &Bed<S>, filter: &Filter) -> Vec<ItemId> {
    let ids = |limit| walk(&*bed.store, filter, limit).iter().map(|one| one.item.id).collect();
    let (whole, in_ones): (Vec<ItemId>, Vec<ItemId>) = (ids(1_000), ids(1));
    assert_eq!(whole, in_ones, "pages of one show the same");
    whole
}

/// Asserts that a filter admits exactly these, given oldest first.
#[track_caller]
fn finds<S: Store>(bed: &Bed<S>, filter: &Filter, ids: &[ItemId]) {
    let newest_first: Vec<ItemId> = ids.iter().rev().copied().collect();
    assert_eq!(found(bed, filter), newest_first, "{filter:?}");
}

#[track_caller]
fn page<S: Store>(bed: &Bed<S>, filter: &Filter, after: Option<ItemId>, limit: usize) -> Page {
    block_on(bed.store.find(filter, after, limit, &|| false)).expect("items can be found")
}

fn with(statuses: &[Status]) -> Filter {
    Filter { statuses: statuses.to_vec(), ..Filter::default() }
}

fn text(text: &str) -> Filter {
    Filter { text: Some(Text::new(text)), ..Filter::default() }
}

/// One thing that a filter can ask for.
fn only(set: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    set(&mut filter);
    filter
}

/// Enqueues so many in few commands.
fn flood<S: Store>(bed: &Bed<S>, count: usize, new: impl Fn(usize) -> NewItem) -> Vec<ItemId> {
    let mut ids = Vec::new();
    for first in (0..count).step_by(500) {
        let some = (first..count.min(first + 500)).map(&new).collect();
        let Answer::Enqueued(each) = bed.ask(Command::Enqueue(some)) else { panic!("enqueued") };
        ids.extend(each.into_iter().map(|one| one.expect("it is enqueued").id));
    }
    ids
}

cases! {
    fn a_list_is_newest_first_and_comes_in_pages(bed) {
        assert_eq!(page(bed, &Filter::default(), None, 10), Page::default());
        let ids = bed.add_many(7);
        finds(bed, &Filter::default(), &ids);
        let first = page(bed, &Filter::default(), None, 3);
        let shown: Vec<ItemId> = first.items.iter().map(|one| one.item.id).collect();
        assert_eq!((shown, first.next), (vec![ids[6], ids[5], ids[4]], Some(ids[4])));
        let rest = page(bed, &Filter::default(), first.next, 50);
        assert_eq!((rest.items.len(), rest.next), (4, None));
    }

    fn a_list_is_narrowed_by_each_name(bed) {
        let a = bed.add(item());
        let b = bed.add(item().queue("other").kind("page").tenant("u"));
        let c = bed.add(item().draft(|new| {
            new.body.collection = Some("books".into());
            new.body.branch = Some("main".into());
            new.body.source_type = Some("email".into());
        }));
        let d = bed.add(routed(&["first", "second"]));
        finds(bed, &only(|f| f.queue = Some("other".into())), &[b]);
        finds(bed, &only(|f| f.queue = Some(QUEUE.into())), &[a, c, d]);
        finds(bed, &only(|f| f.tenant = Some("u".into())), &[b]);
        finds(bed, &only(|f| f.kind = Some("page".into())), &[b]);
        finds(bed, &only(|f| f.collection = Some("books".into())), &[c]);
        finds(bed, &only(|f| f.branch = Some("main".into())), &[c]);
        finds(bed, &only(|f| f.source_type = Some("email".into())), &[c]);
        finds(bed, &only(|f| f.stage = Some("first".into())), &[d]);
        finds(bed, &only(|f| f.stage = Some("second".into())), &[]);
        bed.complete(&bed.take_in("first"));
        finds(bed, &only(|f| f.stage = Some("second".into())), &[d]);
        // Two names at once, and names that nobody has.
        let both = |queue: &str, tenant: &str| only(|f| {
            f.queue = Some(queue.into());
            f.tenant = Some(tenant.into());
        });
        finds(bed, &both("other", "u"), &[b]);
        finds(bed, &both(QUEUE, "u"), &[]);
        for filter in [both("nowhere", "u"), both("other", "nobody"), only(|f| {
            f.collection = Some("none".into());
        })] {
            finds(bed, &filter, &[]);
        }
        // They are found by the same names once they ended.
        bed.drain();
        finds(bed, &only(|f| f.kind = Some("page".into())), &[b]);
        finds(bed, &only(|f| f.stage = Some("second".into())), &[d]);
        finds(bed, &only(|f| f.collection = Some("books".into())), &[c]);
        finds(bed, &both(QUEUE, draft::TENANT), &[a, c, d]);
    }

    fn a_list_is_narrowed_by_status_live_or_ended(bed) {
        let done = bed.add(item());
        bed.complete(&bed.take());
        let failed = bed.add(item());
        bed.settle(&bed.take(), fail());
        let skipped = bed.add(item());
        bed.settle(&bed.take(), skip());
        let cancelled = bed.add(item());
        bed.cancel(cancelled);
        let held = bed.add(item());
        let out = bed.take();
        assert_eq!(out.id, held);
        let waits = bed.add(item().key("k"));
        let later = bed.add(item().at(bed.later(60_000)));
        finds(bed, &with(&[Completed]), &[done]);
        finds(bed, &with(&[Failed]), &[failed]);
        finds(bed, &with(&[Skipped]), &[skipped]);
        finds(bed, &with(&[Cancelled]), &[cancelled]);
        finds(bed, &with(&[Processing]), &[held]);
        finds(bed, &with(&[Pending]), &[waits, later]);
        finds(bed, &with(&[Pending, Processing]), &[held, waits, later]);
        finds(bed, &with(&[Failed, Cancelled]), &[failed, cancelled]);
        finds(bed, &with(&[Completed, Pending]), &[done, waits, later]);
        bed.try_retry(failed, RetryMode::Reset, None).expect("it is reset");
        finds(bed, &with(&[Failed]), &[]);
        finds(bed, &with(&[Pending]), &[failed, waits, later]);
        bed.settle(&out, draft::retry());
        finds(bed, &with(&[Processing]), &[]);
    }

    fn a_split_item_is_found_by_the_status_that_is_shown(bed) {
        let (parent, children) = bed.family(item(), 2);
        bed.is(parent, Pending);
        finds(bed, &with(&[Pending]), &[parent, children[0], children[1]]);
        finds(bed, &with(&[Processing]), &[]);
        let held = bed.take();
        bed.is(parent, Processing);
        finds(bed, &with(&[Processing]), &[parent, held.id]);
        let shown = page(bed, &with(&[Processing]), None, 9).items;
        assert_eq!(shown.iter().map(|one| one.status).collect::<Vec<_>>(), [Processing; 2]);
        bed.complete(&held);
        bed.drain();
        finds(bed, &with(&[Completed]), &[parent, children[0], children[1]]);
        // One that announces more children stays with its worker.
        let slicing = bed.add(item());
        let held = bed.take();
        bed.settle(&held, draft::slice(draft::children(0..1)));
        let first = bed.children(slicing)[0];
        finds(bed, &with(&[Processing]), &[slicing]);
        finds(bed, &with(&[Pending]), &[first]);
    }

    fn a_split_item_may_be_taken_for_processing_whatever_its_children_do(bed) {
        let (parent, children) = bed.family(item(), 1);
        let with = |status| Filter { split_is_processing: true, ..with(&[status]) };
        finds(bed, &with(Processing), &[parent]);
        finds(bed, &with(Pending), &children);
        let held = bed.take();
        finds(bed, &with(Processing), &[parent, held.id]);
        bed.complete(&held);
        finds(bed, &with(Completed), &[parent, held.id]);
    }

    fn several_are_seen_at_once_as_they_are_seen_alone(bed) {
        let (parent, children) = bed.family(item(), 2);
        let gone = bed.add(item().queue("gone"));
        bed.complete(&bed.take_from("gone"));
        bed.try_delete(gone).expect("it has ended");
        let ids = [children[1], gone, parent, children[0]];
        let seen = block_on(bed.store.inspect_all(&ids)).expect("they can be read");
        assert_eq!(seen, [children[1], parent, children[0]].map(|id| bed.see(id)));
        assert_eq!(block_on(bed.store.inspect_all(&[])).expect("nothing can be read"), []);
    }

    fn what_lives_is_listed_oldest_first(bed) {
        let live = |after, limit| -> Vec<ItemId> {
            let items = block_on(bed.store.live(after, limit)).expect("they can be read");
            items.iter().map(|item| item.id).collect()
        };
        assert_eq!(live(None, 9), []);
        let ended = bed.add(item().queue("ended"));
        let (parent, children) = bed.family(item(), 2);
        let late = bed.add(item().at(bed.later(1_000)));
        bed.complete(&bed.take_from("ended"));
        bed.take();
        assert_eq!(live(None, 9), [parent, children[0], children[1], late]);
        assert_eq!(live(Some(ended), 2), [parent, children[0]]);
        assert_eq!(live(Some(children[0]), 9), [children[1], late]);
        assert_eq!(live(Some(late), 9), []);
    }

    fn a_text_is_found_in_every_field_that_is_searched(bed) {
        let keyed = bed.add(item().key("Order-4711"));
        let of_kind = bed.add(item().kind("INVOICE"));
        let from = bed.add(item().draft(|new| {
            new.body.source_info = Some("Ann@Mail.example / Inbox".into());
        }));
        let message = "disk \"full\"\n\u{e9}% _of_ \\it";
        let wrong = |class| windrow_core::command::Outcome::Fail { class, message: message.into() };
        let broken = bed.add(item().priority(10));
        bed.settle(&bed.take(), wrong(windrow_core::trail::Class::BadData));
        let tried = bed.add(item().priority(10));
        bed.settle(&bed.take(), draft::retry());
        let dropped = bed.add(item().priority(10));
        bed.settle(&bed.take(), skip());
        let plain = bed.add(item().payload(b"needle").op("needle"));
        finds(bed, &text("order-47"), &[keyed]);
        finds(bed, &text("invoice"), &[of_kind]);
        finds(bed, &text("ann@mail"), &[from]);
        for part in ["\"FULL\"", "\n\u{e9}%", "_OF_", "\\it", "k \"full\"\n"] {
            finds(bed, &text(part), &[broken]);
        }
        finds(bed, &text("it went wrong"), &[tried]);
        finds(bed, &text("nothing to do"), &[dropped]);
        for part in ["needle", "\u{c9}", "%", "_of-", "\0"] {
            let expected: &[ItemId] = if part == "%" { &[broken] } else { &[] };
            finds(bed, &text(part), expected);
        }
        finds(bed, &text(&plain.to_string()), &[plain]);
        finds(bed, &text(&plain.to_string().to_uppercase()), &[plain]);
        assert!(found(bed, &text(&plain.to_string()[..13])).contains(&plain));
        finds(bed, &text(&plain.to_string()[..7]), &[]);
        // With a status, and after it ended.
        finds(bed, &Filter { statuses: vec![Failed], ..text("full") }, &[broken]);
        finds(bed, &Filter { statuses: vec![Pending], ..text("full") }, &[]);
        bed.drain();
        finds(bed, &Filter { statuses: vec![Completed], ..text("order") }, &[keyed]);
        finds(bed, &text("INVO"), &[of_kind]);
        finds(bed, &text("inbox"), &[from]);
    }

    fn a_walk_sees_what_was_there_exactly_once_while_everything_moves(bed) {
        let ids = bed.add_many(40);
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = page(bed, &Filter::default(), after, 3);
            seen.extend(page.items.iter().map(|one| one.item.id));
            after = page.next;
            if after.is_none() {
                break;
            }
            // One more comes, one ends, one is gone for good and one comes back.
            bed.add_many(1);
            let held = bed.claim(2);
            held.iter().take(1).for_each(|held| bed.complete(held));
            for held in held.iter().skip(1) {
                bed.settle(held, fail());
            }
            if let Some(last) = seen.last() {
                let _may_have_ended = bed.try_cancel(*last);
                let _may_be_gone = bed.try_delete(*last);
            }
            if let Some(failed) = page_of(bed, Failed) {
                bed.retry(failed);
            }
        }
        let newest_first: Vec<ItemId> = ids.into_iter().rev().collect();
        assert_eq!(seen, newest_first, "each one, once, in order");
    }

    fn a_search_that_is_cut_short_goes_on_where_it_stopped(bed) {
        let ids = flood(bed, 2_600, |no| item().key(&format!("{no} of many")));
        let wanted: Vec<ItemId> = [2_599, 1_700, 800, 0].map(|no| ids[no]).to_vec();
        let keys = ["2599 of", "1700 of", "800 of", "0 of many"];
        for (id, key) in wanted.iter().zip(keys) {
            let (mut pages, mut seen, mut after) = (0, Vec::new(), None);
            loop {
                let page = block_on(bed.store.find(&text(key), after, 2_000, &|| true));
                let page = page.expect("items can be found");
                pages += 1;
                seen.extend(page.items.iter().map(|one| one.item.id));
                assert!(page.next.is_none() || after.is_none() || page.next < after);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!(pages > 1, "it was cut short");
            assert!(seen.contains(id), "{key}");
            seen.windows(2).for_each(|two| assert!(two[0] > two[1], "newest first, once"));
        }
    }

    fn what_operators_said_about_queues_can_be_read(bed) {
        let read = || block_on(bed.store.configured()).expect("it can be read");
        assert_eq!(read(), Configured::default());
        bed.configure_queue("z", |settings| settings.live_max = Some(9));
        bed.configure_queue("a", |settings| settings.forget_completed = true);
        bed.pause(scope(Some("work"), None));
        bed.pause(scope(None, None));
        let plain = Settings::default;
        let settings = vec![
            ("a".into(), Settings { forget_completed: true, ..plain() }),
            ("z".into(), Settings { live_max: Some(9), ..plain() }),
        ];
        let paused = vec![scope(None, None), scope(Some("work"), None)];
        assert_eq!(read(), Configured { settings: settings.clone(), paused });
        bed.resume(scope(None, None));
        let paused = vec![scope(Some("work"), None)];
        assert_eq!(read(), Configured { settings, paused });
    }
}

/// The newest item with a status.
fn page_of<S: Store>(bed: &Bed<S>, status: Status) -> Option<ItemId> {
    page(bed, &with(&[status]), None, 1).items.first().map(|one| one.item.id)
}
