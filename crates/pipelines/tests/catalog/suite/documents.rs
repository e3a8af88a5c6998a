//! Documents, their generations, and lists of them.

use windrow_pipelines::catalog::{
    Added, DocumentFilter, DocumentState, GenerationKey, GenerationState, Published, Scope,
};

use crate::bed::{Bed, cases, is_bad, is_gone, key};

cases![
    a_document_is_new_then_unchanged_then_changed,
    what_is_brought_again_on_purpose_is_a_new_generation,
    a_failed_generation_says_why_and_is_not_built_again_unasked,
    a_generation_goes_live_and_the_one_before_is_old,
    a_generation_that_comes_too_late_does_not_go_live,
    documents_are_listed_newest_first_in_pages,
    documents_are_counted_by_state,
    whose_a_document_is_and_which_contents_are_needed_is_known,
    what_waits_to_be_done_is_found_whosever_it_is,
    what_no_database_should_see_is_refused
];

async fn a_document_is_new_then_unchanged_then_changed(bed: &Bed) {
    let first = bed.add("a.md", "one").await;
    let Added::New(at) = first else { panic!("{first:?}") };
    assert_eq!(at.generation, 1);
    let again = bed.add("a.md", "one").await;
    assert_eq!(again, Added::Unchanged(at, GenerationState::Building));
    let changed = bed.add("a.md", "two").await;
    let second = GenerationKey { generation: 2, ..at };
    assert_eq!(changed, Added::Changed(second), "the id is for life");
    // What was there before that is a change too.
    let back = bed.add("a.md", "one").await;
    assert_eq!(back, Added::Changed(GenerationKey { generation: 3, ..at }));
    let other = bed.add("b.md", "one").await;
    assert!(matches!(other, Added::New(other) if other.document != at.document), "{other:?}");
    let found = bed.catalog.document("t", at.document).await.unwrap().unwrap();
    assert_eq!(found.source, "a.md");
    assert_eq!(found.name, "a.md by name");
    assert_eq!(found.scope, Scope::new("t", "c"));
    assert_eq!((found.state, found.live), (DocumentState::Building, None));
    let newest = found.newest.unwrap();
    assert_eq!((newest.number, newest.state), (3, GenerationState::Building));
    assert_eq!(newest.content.place, "blob:a.md");
    assert_eq!(newest.content.bytes, 3);
    assert_eq!(newest.content.media_type, "text/markdown");
}

async fn whose_a_document_is_and_which_contents_are_needed_is_known(bed: &Bed) {
    let at = bed.ingest("a.md", &["one"]).await;
    let newest = bed.catalog.document("t", at.document).await.unwrap().unwrap().newest.unwrap();
    let hash = newest.content.hash;
    assert_eq!(bed.catalog.owner(at.document).await.unwrap().as_deref(), Some("t"));
    assert_eq!(bed.catalog.owner(uuid::Uuid::from_u128(1)).await.unwrap(), None);
    assert!(bed.catalog.has_content("t", hash).await.unwrap());
    assert!(!bed.catalog.has_content("other", hash).await.unwrap());
    assert!(!bed.catalog.has_content("t", [7; 32]).await.unwrap());
    assert_eq!(newest.item, None);
    let item = "01a1e554-9c99-7001-b210-29840971dd42".parse().unwrap();
    bed.catalog.note_item(at, item).await.unwrap();
    let noted = bed.catalog.generation("t", at).await.unwrap().unwrap();
    assert_eq!(noted.item, Some(item));
}

async fn what_waits_to_be_done_is_found_whosever_it_is(bed: &Bed) {
    let item = "01a1e554-9c99-7001-b210-29840971dd42".parse().unwrap();
    let noted = key(&bed.add("noted.md", "one").await);
    bed.catalog.note_item(noted, item).await.unwrap();
    let failed = key(&bed.add("failed.md", "one").await);
    bed.catalog.fail_generation(failed, Some("it is bad".into())).await.unwrap();
    bed.ingest("live.md", &["one"]).await;
    let lost = key(&bed.add("lost.md", "one").await);
    bed.ingest("updating.md", &["one"]).await;
    let updating = key(&bed.add("updating.md", "two").await);
    let deleting = bed.ingest_in(&Scope::new("other", "c"), "gone.md", &["one"]).await;
    let sinks = vec!["vectors".to_owned()];
    bed.catalog.begin_delete("other", deleting.document, sinks, bed.now()).await.unwrap();
    let mut expected = [noted, lost, updating, deleting].map(|at| at.document);
    expected.sort_unstable();
    let (mut found, mut after) = (Vec::new(), None);
    // One at a time, so that every page goes on where the last one ended.
    while let Some(one) = bed.catalog.unfinished(after, 1).await.unwrap().pop() {
        after = Some(one.id);
        found.push(one);
    }
    let ids: Vec<_> = found.iter().map(|one| one.id).collect();
    assert_eq!(ids, expected);
    let one = found.iter().find(|one| one.id == updating.document).unwrap();
    let newest = one.newest.as_ref().unwrap();
    assert_eq!((one.state, newest.number), (DocumentState::Updating, 2));
    let newest = |at: GenerationKey| found.iter().find(|one| one.id == at.document)?.newest.clone();
    let items = [noted, lost].map(|at| newest(at).and_then(|newest| newest.item));
    assert_eq!(items, [Some(item), None]);
}

async fn what_is_brought_again_on_purpose_is_a_new_generation(bed: &Bed) {
    let at = bed.ingest("a.md", &["one"]).await;
    let mut new = bed.new_document("a.md", "one");
    new.again = true;
    let again = bed.catalog.add_document(new, bed.now()).await.unwrap();
    assert_eq!(again, Added::Changed(GenerationKey { generation: 2, ..at }));
}

async fn a_failed_generation_says_why_and_is_not_built_again_unasked(bed: &Bed) {
    let at = key(&bed.add("a.pdf", "broken").await);
    bed.catalog.fail_generation(at, Some("it is no PDF".into())).await.unwrap();
    bed.catalog.fail_generation(at, Some("it is no PDF".into())).await.unwrap();
    let found = bed.catalog.document("t", at.document).await.unwrap().unwrap();
    assert_eq!(found.state, DocumentState::Failed);
    assert_eq!(found.newest.unwrap().failure.as_deref(), Some("it is no PDF"));
    let again = bed.add("a.pdf", "broken").await;
    assert_eq!(again, Added::Unchanged(at, GenerationState::Building));
    bed.catalog.fail_generation(at, None).await.unwrap();
    let found = bed.catalog.document("t", at.document).await.unwrap().unwrap();
    assert_eq!(found.state, DocumentState::Building);
    let nowhere = GenerationKey { generation: 9, ..at };
    is_gone(bed.catalog.fail_generation(nowhere, None).await);
}

async fn a_generation_goes_live_and_the_one_before_is_old(bed: &Bed) {
    let first = bed.ingest("a.md", &["one"]).await;
    let state = |found: Option<windrow_pipelines::catalog::Document>| {
        let found = found.unwrap();
        (found.state, found.live)
    };
    let id = first.document;
    let document = || async { bed.catalog.document("t", id).await.unwrap() };
    assert_eq!(state(document().await), (DocumentState::Live, Some(1)));
    let second = key(&bed.add("a.md", "two").await);
    assert_eq!(state(document().await), (DocumentState::Updating, Some(1)));
    bed.catalog.fail_generation(second, Some("no".into())).await.unwrap();
    assert_eq!(state(document().await), (DocumentState::Failed, Some(1)), "one is still seen");
    let live = Published::Live { old: vec![1] };
    assert_eq!(bed.publish(second).await, live);
    assert_eq!(bed.publish(second).await, live, "again");
    assert_eq!(state(document().await), (DocumentState::Live, Some(2)));
    let newest = document().await.unwrap().newest.unwrap();
    assert!(newest.published_at.is_some() && newest.failure.is_none(), "{newest:?}");
    let old = bed.catalog.old_generations(10).await.unwrap();
    assert_eq!(old.iter().map(|old| old.at).collect::<Vec<_>>(), [first]);
    assert_eq!(old[0].scope, Scope::new("t", "c"));
    let one = bed.catalog.generation("t", first).await.unwrap().unwrap();
    assert_eq!(one.state, GenerationState::Old);
}

async fn a_generation_that_comes_too_late_does_not_go_live(bed: &Bed) {
    let first = key(&bed.add("a.md", "one").await);
    let second = key(&bed.add("a.md", "two").await);
    assert_eq!(bed.publish(second).await, Published::Live { old: vec![1] });
    assert_eq!(bed.publish(first).await, Published::Superseded { live: 2 });
    let found = bed.catalog.document("t", first.document).await.unwrap().unwrap();
    assert_eq!((found.state, found.live), (DocumentState::Live, Some(2)));
    is_gone(bed.catalog.publish(GenerationKey { generation: 9, ..first }, bed.now()).await);
}

async fn documents_are_listed_newest_first_in_pages(bed: &Bed) {
    for n in 0..25 {
        let collection = if n % 5 == 0 { "fives" } else { "c" };
        let new = bed.new_in(&Scope::new("t", collection), &format!("{n:02}.MD"), "text");
        // Several at one moment.
        let now = windrow_core::Timestamp(1_000 + n / 3);
        let at = key(&bed.catalog.add_document(new, now).await.unwrap());
        if n % 2 == 0 {
            bed.publish(at).await;
        }
    }
    let all = DocumentFilter::of("t");
    let in_pages = |filter: DocumentFilter| async move {
        let (mut sources, mut after) = (Vec::new(), None);
        loop {
            let page = bed.catalog.documents(filter.clone(), after, 4).await.unwrap();
            let Some(last) = page.last() else { return sources };
            after = Some(last.cursor());
            assert!(page.len() <= 4);
            sources.extend(page.into_iter().map(|document| document.source));
        }
    };
    let sources = in_pages(all.clone()).await;
    let want: Vec<String> = (0..25).rev().map(|n| format!("{n:02}.MD")).collect();
    assert_eq!(sources, want);
    let fives = DocumentFilter { collection: Some("fives".into()), ..all.clone() };
    assert_eq!(in_pages(fives).await, ["20.MD", "15.MD", "10.MD", "05.MD", "00.MD"]);
    let live = DocumentFilter { state: Some(DocumentState::Live), ..all.clone() };
    assert_eq!(in_pages(live).await.len(), 13);
    let named = DocumentFilter { name: Some("2.mD".into()), ..all.clone() };
    assert_eq!(in_pages(named).await, ["22.MD", "12.MD", "02.MD"], "in any case");
    let literal = DocumentFilter { name: Some("%_".into()), ..all };
    assert!(in_pages(literal).await.is_empty());
}

async fn documents_are_counted_by_state(bed: &Bed) {
    let counted = |tenant| async move {
        let all = bed.catalog.count_documents(tenant).await.unwrap();
        assert!(all.iter().all(|one| !one.is_capped));
        all.into_iter().map(|one| (one.state.word(), one.documents)).collect::<Vec<_>>()
    };
    for n in 0..5 {
        let at = key(&bed.add(&format!("{n}.md"), "text").await);
        match n {
            0 | 1 => drop(bed.publish(at).await),
            2 => bed.catalog.fail_generation(at, Some("no".into())).await.unwrap(),
            _ => {}
        }
    }
    let new = bed.new_in(&Scope::new("u", "c"), "a.md", "text");
    bed.catalog.add_document(new, bed.now()).await.unwrap();
    let want = [("building", 2), ("live", 2), ("updating", 0), ("failed", 1), ("deleting", 0)];
    assert_eq!(counted("t").await, want);
    assert_eq!(counted("nobody").await, want.map(|(state, _)| (state, 0)));
}

async fn what_no_database_should_see_is_refused(bed: &Bed) {
    let refused = |change: fn(&mut windrow_pipelines::catalog::NewDocument), part: &'static str| {
        let mut new = bed.new_document("a.md", "one");
        change(&mut new);
        let now = bed.now();
        async move { is_bad(bed.catalog.add_document(new, now).await, part) }
    };
    refused(|new| new.source = "a\0b".into(), "a source has a NUL").await;
    refused(|new| new.source = "x".repeat(1_025), "1025 bytes").await;
    refused(|new| new.scope.tenant = String::new(), "a tenant is empty").await;
    refused(|new| new.scope.collection = "y".repeat(129), "129 bytes").await;
    refused(|new| new.name = String::new(), "a name is empty").await;
    is_bad(bed.catalog.document("t\0", uuid::Uuid::nil()).await, "NUL");
    let odd = DocumentFilter { name: Some("\0".into()), ..DocumentFilter::of("t") };
    is_bad(bed.catalog.documents(odd, None, 1).await, "NUL");
    // The longest that is taken, in letters of several bytes.
    let mut new = bed.new_document("a.md", "one");
    new.source = "ü".repeat(512);
    new.scope.tenant = "ñ".repeat(64);
    assert!(bed.catalog.add_document(new, bed.now()).await.is_ok());
    assert_eq!(bed.base.counts().unwrap()["documents"], 1);
}
