//! Tenants never see each other, whatever of the other they name.

use windrow_core::Timestamp;
use windrow_pipelines::catalog::{
    Added, Called, DocumentFilter, EntityId, MemoKey, MemoOf, Scope, TextQuery,
};

use crate::bed::{Bed, cases, page};

cases![
    tenants_never_see_each_other,
    a_memo_belongs_to_its_tenant,
    names_that_run_together_are_not_the_same
];

async fn tenants_never_see_each_other(bed: &Bed) {
    let (ours, theirs) = (Scope::new("t", "c"), Scope::new("u", "c"));
    let at = bed.ingest_in(&ours, "a.md", &["Ada knows a secret."]).await;
    let other = bed.ingest_in(&theirs, "a.md", &["Ada knows another secret."]).await;
    assert_ne!(at.document, other.document, "one source of two tenants is two documents");
    let catalog = &*bed.catalog;
    let chunk = catalog.chunks("t", page(at, 1)).await.unwrap()[0].id;
    assert_eq!(catalog.document("u", at.document).await.unwrap(), None);
    assert_eq!(catalog.generation("u", at).await.unwrap(), None);
    assert_eq!(catalog.progress("u", at).await.unwrap(), None);
    assert_eq!(catalog.page("u", page(at, 1)).await.unwrap(), None);
    assert!(catalog.manifest("u", at, 0, 10).await.unwrap().is_empty());
    assert!(catalog.chunks("u", page(at, 1)).await.unwrap().is_empty());
    assert!(catalog.chunk_places("u", at, (0, 0), 10).await.unwrap().is_empty());
    assert!(catalog.chunk_texts("u", vec![chunk]).await.unwrap().is_empty());
    assert!(catalog.mentions("u", vec![chunk]).await.unwrap().is_empty());
    assert_eq!(catalog.begin_delete("u", at.document, vec![], bed.now()).await, Ok(false));
    let listed = catalog.documents(DocumentFilter::of("u"), None, 10).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.id).collect::<Vec<_>>(), [other.document]);
    let ada = EntityId::of(&ours, &Called::new("name", "Ada"));
    assert_eq!(catalog.entity("u", ada).await.unwrap(), None);
    assert!(catalog.neighbours("u", ada, 10).await.unwrap().is_empty());
    let called = catalog.entities_called(&theirs, "ada").await.unwrap();
    assert_eq!((called.len(), called[0].mentions), (1, 1));
    let hits = catalog.search_text(TextQuery::of("u", "secret")).await.unwrap();
    assert_eq!(hits.iter().map(|hit| hit.page.document).collect::<Vec<_>>(), [other.document]);
    let named = TextQuery { document: Some(at.document), ..TextQuery::of("u", "secret") };
    assert!(catalog.search_text(named).await.unwrap().is_empty());
    let alone = TextQuery { collection: Some("c".into()), ..TextQuery::of("nobody", "secret") };
    assert!(catalog.search_text(alone).await.unwrap().is_empty());
    assert_ne!(catalog.fingerprint(&ours).await, catalog.fingerprint(&theirs).await);
}

async fn a_memo_belongs_to_its_tenant(bed: &Bed) {
    let (key, now) = (MemoKey([1; 32]), Timestamp(1));
    let (ours, theirs) = (MemoOf::new("t", "ocr"), MemoOf::new("u", "ocr"));
    bed.catalog.memo_put(&ours, vec![(key, b"ours".to_vec())], now).await.unwrap();
    assert_eq!(bed.catalog.memo_get(&theirs, vec![key], now).await.unwrap(), [None]);
    bed.catalog.memo_put(&theirs, vec![(key, b"theirs".to_vec())], now).await.unwrap();
    let found = bed.catalog.memo_get(&ours, vec![key], now).await.unwrap();
    assert_eq!(found, [Some(b"ours".to_vec())]);
}

async fn names_that_run_together_are_not_the_same(bed: &Bed) {
    let one = bed.new_in(&Scope::new("ab", "c"), "d", "x");
    let other = bed.new_in(&Scope::new("a", "bc"), "d", "x");
    for new in [one, other] {
        let added = bed.catalog.add_document(new, bed.now()).await.unwrap();
        assert!(matches!(added, Added::New(_)), "{added:?}");
    }
    bed.ingest_in(&Scope::new("ab", "c"), "e", &["Hippopotamus."]).await;
    let other = TextQuery { collection: Some("bc".into()), ..TextQuery::of("a", "hippopotamus") };
    assert!(bed.found_by(other).await.is_empty());
}
